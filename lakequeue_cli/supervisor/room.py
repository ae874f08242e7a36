"""Whether there is room on the disks that a child writes to."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

LEAST_BYTES = 8 << 20
"""With less, what ended because its disk is full would end again: ZooKeeper alone sets 4 MiB aside
for its log."""
LOOK_S = 1.0
"""How often a child that waits for room is looked after."""


def full_disk(folders: Iterable[Path], least_bytes: int = LEAST_BYTES) -> str | None:
    """The first of these whose disk is full, in words; None if there is room everywhere."""
    for folder in folders:
        try:
            found = os.statvfs(folder)
        except OSError:
            continue  # it is not there yet, or not local: whoever needs it says so
        free = found.f_bavail * found.f_frsize
        if free < least_bytes:
            return f"the disk of {folder} is full ({free >> 20} MiB left)"
    return None
