"""Builders and readers of a queue's tables. They start no process."""
