"""What this process has acknowledged and the order job has not taken yet.

Told by the watermark that stands in `log`, so it is right whoever orders, and also while nobody
does.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from queue_tables.schema.marks import WATERMARKS

MOST_KEPT = 20_000
"""Commits remembered one by one; while more are waiting, neighbours are told as one."""


class Waiting(NamedTuple):
    """Commits of one shard, up to `stamp`."""

    shard: str
    first_stamp: int
    stamp: int
    records: int
    bytes: int


class Unordered:
    """Thread-safe; `committed` is called in the committer's thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Waiting] = deque()

    def committed(self, shard: str, stamp: int, records: int, size: int) -> None:
        """A group is durable."""
        with self._lock:
            self._waiting.append(Waiting(shard, stamp, stamp, records, size))
            if len(self._waiting) > MOST_KEPT:
                self._waiting = deque(joined(list(self._waiting)))

    def marks(self) -> set[str]:
        """Names of the marks that tell how far it is ordered."""
        with self._lock:
            return {WATERMARKS.name(w.shard) for w in self._waiting}

    def left(self, marks: Mapping[str, int]) -> tuple[int, int, int | None]:
        """Records, bytes and the oldest stamp of what is above the marks `inbox/<shard>`."""
        with self._lock:
            while self._waiting and self._waiting[0].stamp <= (
                marks.get(WATERMARKS.name(self._waiting[0].shard), 0)
            ):
                self._waiting.popleft()
            # A shard that was sealed may be ordered after its successor.
            left = [w for w in self._waiting if marks.get(WATERMARKS.name(w.shard), 0) < w.stamp]
        records, size = sum(w.records for w in left), sum(w.bytes for w in left)
        return records, size, min((w.first_stamp for w in left), default=None)


def joined(waiting: list[Waiting]) -> list[Waiting]:
    """Half as many, told as one two by two; those of different shards stay apart. Pure."""
    found: list[Waiting] = []
    index = 0
    while index < len(waiting):
        one = waiting[index]
        after = waiting[index + 1] if index + 1 < len(waiting) else None
        if after is not None and after.shard == one.shard:
            found.append(
                Waiting(
                    one.shard,
                    one.first_stamp,
                    after.stamp,
                    one.records + after.records,
                    one.bytes + after.bytes,
                )
            )
            index += 2
        else:
            found.append(one)
            index += 1
    return found
