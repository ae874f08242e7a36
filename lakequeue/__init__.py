"""lakequeue: a message queue whose storage is open Delta Lake tables."""
