"""Partitions that this node owns: leases, journal, how they change hands. Knows no mode."""
