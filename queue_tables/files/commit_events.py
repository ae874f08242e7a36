"""Hears of commits from the kernel, if the root is on a file system of this machine.

A notification of ZooKeeper takes a dozen hand-overs between threads and processes, and is sent once
in so many milliseconds. The kernel tells of a commit when its name appears (inotify), and whoever
commits has nothing to do for that. It wakes, and says nothing that may be relied on: what is
there is read from the tables, and who hears nothing looks after a time.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import re
import select
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from lakequeue.clock import boot_seconds
from queue_tables.delta.store import Store

_OWN = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"}
)
"""File systems to which nobody writes but through this kernel, which tells of it."""
_SELDOM = 5
"""So many times as far apart are notifications where the kernel tells of commits as well."""
_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(r"\\([0-7]{3})")
"""A space there, and the like."""
_IN_MOVED_TO = 0x80
_IN_CREATE = 0x100
_IN_Q_OVERFLOW = 0x4000
_IN_IGNORED = 0x8000
_IN_ONLYDIR = 0x0100_0000
_HEAD = struct.Struct("iIII")
_AT_ONCE = 1 << 16


def tells_of_commits(store: Store) -> bool:
    """Whether the kernel tells each process that uses this root of all commits to it."""
    root = store.local_path
    return root is not None and sys.platform.startswith("linux") and _is_own(root)


def interval_of(ring_interval_ms: float, store: Store) -> float:
    """Milliseconds between two notifications of a table in this storage."""
    return ring_interval_ms * (_SELDOM if tells_of_commits(store) else 1)


@functools.lru_cache(maxsize=64)
def _is_own(root: Path) -> bool:
    try:
        mounts = os.fsdecode(_MOUNTS.read_bytes())
    except OSError:
        return False
    return kind_of(root.resolve(), mounts) in _OWN


def kind_of(path: Path, mounts: str) -> str | None:
    """The file system of a path, by what `/proc/self/mountinfo` says. Pure."""
    found: tuple[int, str] | None = None
    # Only these part words and lines: a name may have any other white space in it.
    for line in mounts.rstrip("\n").split("\n"):
        place, _, kind = line.partition(" - ")
        point = Path(_ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), place.split(" ")[4]))
        # Of two at one place the later one covers the other.
        if path.is_relative_to(point) and (found is None or len(point.parts) >= found[0]):
            found = len(point.parts), kind.split()[0]
    return None if found is None else found[1]


class CommitEvents:
    """Tells of names that appear in folders. Used by one thread."""

    def __init__(self) -> None:
        """Raises `OSError` if the kernel gives no more of these."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._handle = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._handle < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._folders: dict[str, int] = {}

    @staticmethod
    def of(store: Store) -> CommitEvents | None:
        """None: what the kernel tells does not say it all, or it tells nothing."""
        if not tells_of_commits(store):
            return None
        try:
            return CommitEvents()
        except OSError as error:
            _warn(f"inotify_init1: {os.strerror(error.errno or 0)}")
            return None

    def fileno(self) -> int:
        """Readable when there is something to `take`."""
        return int(self._handle)

    def watch(self, folder: str) -> bool:
        """Hear of names in this folder; True if it was not heard before, so look at it once more.

        A folder that is not there, or that the kernel does not watch, is not heard.
        """
        if folder in self._folders:
            return False
        mask = _IN_CREATE | _IN_MOVED_TO | _IN_ONLYDIR
        number = self._libc.inotify_add_watch(self._handle, os.fsencode(folder), mask)
        if number < 0:
            if ctypes.get_errno() == errno.ENOSPC:
                self._folders[folder] = -1  # not again at each look
                _warn("fs.inotify.max_user_watches is reached")
            return False
        self._folders[folder] = number
        return True

    def take(self) -> bool:
        """Read what was told; whether any of it may be a commit, or a new shard."""
        told = False
        while True:
            try:
                data = os.read(self._handle, _AT_ONCE)
            except BlockingIOError:
                return told
            for number, mask, name in _events(data):
                if mask & _IN_IGNORED:  # the folder is gone: one of that name is another
                    self._folders = {f: n for f, n in self._folders.items() if n != number}
                told |= bool(mask & (_IN_Q_OVERFLOW | _IN_IGNORED)) or not name.startswith(b".")

    def close(self) -> None:
        """Hear nothing any longer."""
        os.close(self._handle)


def _events(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    at = 0
    while at < len(data):
        number, mask, _, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        yield number, mask, data[at : at + length].rstrip(b"\0")
        at += length


def _warn(why: str) -> None:
    import structlog  # what is lean here is lean for the readers of Spark's tasks

    structlog.get_logger(__name__).warning("commit_events.refused", why=why)


class CommitSignal(threading.Event):
    """An event that is set by commits to one table, too, where the kernel tells of them.

    Any thread may set it; one waits.
    """

    def __init__(self, store: Store, table_path: str) -> None:
        super().__init__()
        self._folder = f"{store.local_path}/{table_path}/_delta_log"
        self._events = CommitEvents.of(store)
        self._bell = -1
        if self._events is not None:
            self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def set(self) -> None:
        """Let who waits return."""
        super().set()
        if self._bell >= 0:
            os.eventfd_write(self._bell, 1)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a commit, or until it is set; False after the time."""
        events = self._events
        if events is None:
            return super().wait(timeout)
        if events.watch(self._folder):
            return True  # what came before was not told
        deadline = None if timeout is None else boot_seconds() + timeout
        # Not select: a process with a thousand connections has numbers that it does not take.
        both = select.poll()
        for number in (events.fileno(), self._bell):
            both.register(number, select.POLLIN)
        while not self.is_set():
            left_s = None if deadline is None else max(0.0, deadline - boot_seconds())
            ready = dict(both.poll(None if left_s is None else left_s * 1_000))
            if not ready:
                return False
            if self._bell in ready:
                os.eventfd_read(self._bell)
            if events.fileno() in ready and events.take():
                return True
        return True

    def close(self) -> None:
        """Nobody waits or sets it any longer."""
        if self._events is not None:
            self._events.close()
            os.close(self._bell)
            self._events, self._bell = None, -1
