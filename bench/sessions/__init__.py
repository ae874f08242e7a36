"""How long it takes to begin: sessions of Spark and their queries, and a queue on a long log."""
