"""The logs of children, bounded: a log that grows for ever fills the disk that the queue is on."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

MOST_BYTES = 32 << 20
"""A log that is larger becomes `<name>.log.1`, in place of the one before it."""


def bound_log(path: Path, most_bytes: int = MOST_BYTES) -> None:
    """Begin the log anew if it is too large; what was in it is kept once.

    Its process appends to the file and goes on doing so: the file is emptied, not replaced. On a
    full disk nothing can be kept, and it is emptied all the same.
    """
    with contextlib.suppress(OSError):
        if path.stat().st_size <= most_bytes:
            return
        kept = path.with_name(path.name + ".1")
        with contextlib.suppress(OSError):
            kept.unlink(missing_ok=True)
            shutil.copyfile(path, kept)
        os.truncate(path, 0)
