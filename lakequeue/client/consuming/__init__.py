"""Consumers: how they stay in a group, and what they hold of it."""
