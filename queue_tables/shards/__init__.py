"""Shards: the tables of one process each, and how many writers commit to them together."""
