"""Queues whose doors are locked."""
