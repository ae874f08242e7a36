"""Producers: what they hold until it is acknowledged, and how it gets there."""
