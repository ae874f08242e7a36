"""Delta tables and the storage under them. Nothing here knows that there is a queue."""
