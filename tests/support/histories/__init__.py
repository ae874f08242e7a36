"""Histories that are made up, to show what the checker catches."""
