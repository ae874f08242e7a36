"""Where spans go in tests: the memory of this process, or a collector."""
