"""The source: options, positions, which task reads what, and the reading."""
