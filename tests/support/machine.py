"""A machine as a benchmark has described it."""

from __future__ import annotations

from bench.machine import Machine


def idle_machine() -> Machine:
    """That of 2026-11-30, used by nobody else."""
    return {
        "measured_at": "2026-11-30T00:00:00+00:00",
        "cores": 2,
        "memory_gib": 23.5,
        "kernel": "6.1",
        "python": "3.11",
        "versions": {},
        "speed": {
            "loop_s": 0.25,
            "fdatasync_p50_ms": 0.2,
            "fdatasync_p99_ms": 1.0,
            "copy_gb_per_s": 9.0,
            "load": 0.1,
        },
    }
