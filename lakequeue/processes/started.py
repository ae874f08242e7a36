"""When a process was started: so an id that was given out again is known from the one before."""

from __future__ import annotations

from pathlib import Path


def started_at(pid: int) -> str:
    """Start time of a process in clock ticks since boot, "" when it is gone or a zombie.

    Off Linux it is "" always.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The name in parentheses may hold spaces: count the fields after it.
    fields = stat.rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] in {"Z", "X"}:
        return ""
    return fields[19]
