"""What SQL engines see of a queue: datasets and views. Nothing here writes."""
