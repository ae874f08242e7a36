"""The Spark jobs; their rules are pure functions beside them."""
