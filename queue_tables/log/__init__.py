"""The log: where its records are, reading them by offset, writing its files. Knows no group."""
