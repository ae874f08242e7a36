"""How the driver tells its sources that it leads, and wakes them.

A source's `latestOffset` runs in a Python process of its own, which neither talks to ZooKeeper nor
commits: it reads one small file, replaced atomically by the driver, and sleeps on a named pipe
that the driver writes a byte to when a notification arrives. So a standby's query runs all the
time, and starts to work the moment the file says so.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lakequeue.records import Epoch, ShardName, Stamp


@dataclass(frozen=True, slots=True)
class LeaderState:
    """What a source needs to know of the term it works for."""

    epoch: Epoch
    watermarks: Mapping[ShardName, Stamp] = field(default_factory=dict)
    """Last stamp done of each shard, when the term began."""
    plan: Mapping[ShardName, Stamp] | None = None
    """A cut that an earlier term has begun: the first batch must have exactly these ends."""
    held: Mapping[ShardName, Stamp] = field(default_factory=dict)
    """Shards that wait, and the stamp of the commit that each waits at."""


class LeaderStateFile:
    """The file and the pipe of one query, in the driver's work directory."""

    def __init__(self, folder: Path, query: str) -> None:
        self._path = folder / f"{query}-leader.json"
        self._pipe = folder / f"{query}-wake"
        self._seen: tuple[int, int] | None = None
        self._term: LeaderState | None = None
        self._fd: int | None = None
        self._writing = threading.Lock()

    # -- the driver's side ------------------------------------------------------------------------

    def create(self) -> None:
        """Make the pipe; say that nobody leads."""
        self._pipe.unlink(missing_ok=True)
        os.mkfifo(self._pipe)
        self.write(None)

    def write(self, term: LeaderState | None) -> None:
        """Replace the file; None: do not lead."""
        body = None
        if term is not None:
            body = {
                "epoch": term.epoch,
                "watermarks": dict(term.watermarks),
                "plan": None if term.plan is None else dict(term.plan),
                "held": dict(term.held),
            }
        temp = self._path.with_suffix(".tmp")
        with self._writing:  # the leader's thread, and that of a query that starts again
            temp.write_text(json.dumps(body))
            temp.rename(self._path)

    def wake(self) -> None:
        """Let a waiting source look now."""
        # No reader (the source is not up yet), or a full pipe (it has enough to wake for).
        with contextlib.suppress(OSError):
            fd = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(fd, b"!")
            finally:
                os.close(fd)

    # -- the source's side ------------------------------------------------------------------------

    def read(self) -> LeaderState | None:
        """The term now, None while not leading. One `stat` when nothing has changed."""
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            return None
        seen = (stat.st_mtime_ns, stat.st_ino)
        if seen != self._seen:
            body = json.loads(self._path.read_text())
            self._term = None if body is None else LeaderState(**body)
            self._seen = seen
        return self._term

    def wait(self, timeout_s: float) -> bool:
        """Sleep until woken; False after `timeout_s`."""
        if self._fd is None:
            # Opened for both, so that the pipe never reports an end when no writer has it open.
            self._fd = os.open(self._pipe, os.O_RDWR | os.O_NONBLOCK)
        ready, _, _ = select.select([self._fd], [], [], max(timeout_s, 0.0))
        if not ready:
            return False
        with contextlib.suppress(BlockingIOError):
            os.read(self._fd, 65_536)
        return True

    def close(self) -> None:
        """Close the source's side."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
