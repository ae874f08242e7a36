"""Copies of a queue: replicas and forks. No Spark."""
