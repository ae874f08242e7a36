"""Spark sessions, clusters and notebooks for tests."""
