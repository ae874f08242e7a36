"""Faults that a test injects: networks, storage, clocks, power, builds with a safeguard missing."""
