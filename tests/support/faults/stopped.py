"""Whether a process stands still, as after `--crash-at step:1:stop`."""

from __future__ import annotations

from pathlib import Path


def is_stopped(pid: int) -> bool:
    """By SIGSTOP."""
    state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    return state == "T"
