"""The folder of one driver process on local disk: checkpoints of a term, notes of its sources.

Those of dead predecessors are removed. Whether a process is dead is said by a lock that the kernel
lets go with it, not by its name: two drivers that were given one name (each takes its machine's by
default) would otherwise remove each other's, again and again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import uuid
from pathlib import Path

SOCKETS = "sockets"
"""A link in it, to a folder elsewhere whose path is short (`session.socket_folder`)."""


class WorkFolder:
    """`<work_dir>/driver-<node>.<id>.d`, and beside it the lock, `….lock`."""

    def __init__(self, work_dir: Path, node: str) -> None:
        for old in work_dir.glob(f"driver-{node}.*.d"):
            _remove_if_left(old)
        self.path = work_dir / f"driver-{node}.{uuid.uuid4().hex[:8]}.d"
        # Before the folder: whoever finds that one finds it locked.
        self._lock = _locked(self.path)
        self.path.mkdir()

    def remove(self) -> None:
        """The process ends."""
        _remove(self.path)
        if self._lock is not None:
            _unlock(self.path, self._lock)
            self._lock = None


def _remove_if_left(folder: Path) -> None:
    lock = _locked(folder)
    if lock is not None:
        _remove(folder)
        _unlock(folder, lock)


def _remove(folder: Path) -> None:
    link = folder / SOCKETS
    if link.is_symlink():
        shutil.rmtree(link.readlink(), ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def _locked(folder: Path) -> int | None:
    """The lock of a folder; None if a living process has it, or if nobody can tell."""
    handle = os.open(folder.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _unlock(folder: Path, handle: int) -> None:
    with contextlib.suppress(OSError):
        folder.with_suffix(".lock").unlink()
    os.close(handle)
