"""The doors of a process: who comes in, as `queue_access` decides it. Knows no table."""
