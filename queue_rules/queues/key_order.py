"""Key order for workers: of each key at most one record is under way, the lowest unsettled. Pure.

A record whose key is busy waits, in offset order behind the others of its key, without being seen:
after a take-over it is simply met again. Keys are 64-bit hashes: two keys that share one wait for
each other, and nothing worse.
"""

from __future__ import annotations

import heapq
from array import array
from hashlib import blake2b
from typing import Final, NamedTuple

from queue_tables.groups.record_states import NEVER

_TRIM_AT: Final = 4_096
"""Places at the front of a line that are given back together."""


def key_hash(key: bytes | None) -> int:
    """A signed 64-bit hash of a key, the same everywhere; 0 for none, which has no order."""
    if key is None:
        return 0
    return int.from_bytes(blake2b(key, digest_size=8).digest(), signed=True) or 1


class Waiting(NamedTuple):
    """A record that waits for its key. Times in microseconds."""

    offset: int
    key_hash: int
    deliver_at: int
    expires_at: int


class _Line:
    """The records that wait for one key, in offset order: 8 bytes each, however hot the key is."""

    __slots__ = ("_at", "_key", "_offsets", "_timed")

    def __init__(self, key: int) -> None:
        self._key = key
        self._offsets = array("q")
        self._at = 0
        """The first that still waits."""
        self._timed: dict[int, tuple[int, int]] = {}
        """Times of those few that have any."""

    def __len__(self) -> int:
        return len(self._offsets) - self._at

    def append(self, record: Waiting) -> None:
        self._offsets.append(record.offset)
        if record.deliver_at or record.expires_at != NEVER:
            self._timed[record.offset] = record.deliver_at, record.expires_at

    @property
    def first(self) -> int:
        """The lowest offset."""
        return self._offsets[self._at]

    def popleft(self) -> Waiting:
        offset = self._offsets[self._at]
        self._at += 1
        if self._at > _TRIM_AT and self._at * 2 > len(self._offsets):
            del self._offsets[: self._at]
            self._at = 0
        return Waiting(offset, self._key, *self._timed.pop(offset, (0, NEVER)))


class KeyOrder:
    """The keys of one partition."""

    def __init__(self) -> None:
        self._busy: set[int] = set()
        self._queues: dict[int, _Line] = {}
        self._freed: list[Waiting] = []
        self.waiting = 0
        """Records that wait for their key."""

    def admit(self, record: Waiting) -> bool:
        """Whether the record may go on now, and its key is busy then; else it waits."""
        if record.key_hash == 0:
            return True
        if record.key_hash not in self._busy:
            self._busy.add(record.key_hash)
            return True
        line = self._queues.get(record.key_hash)
        if line is None:
            line = self._queues[record.key_hash] = _Line(record.key_hash)
        line.append(record)
        self.waiting += 1
        return False

    def hold(self, key: int) -> None:
        """A record of this key is under way already."""
        if key:
            self._busy.add(key)

    def free(self, key: int) -> None:
        """The record of this key that was under way is settled: the next may go on."""
        queue = self._queues.get(key)
        if queue is None:
            self._busy.discard(key)
            return
        heapq.heappush(self._freed, queue.popleft())
        if not queue:
            del self._queues[key]

    def pop_freed(self) -> Waiting | None:
        """The lowest record whose turn has come; its key is busy with it."""
        if not self._freed:
            return None
        self.waiting -= 1
        return heapq.heappop(self._freed)

    @property
    def has_freed(self) -> bool:
        """Some record's turn has come."""
        return bool(self._freed)

    def drop_below(self, offset: int) -> None:
        """Waiting records below `offset` do not exist any more."""
        for key, queue in list(self._queues.items()):
            while queue and queue.first < offset:
                queue.popleft()
                self.waiting -= 1
            if not queue:
                del self._queues[key]
        gone = [record for record in self._freed if record.offset < offset]
        self._freed = [record for record in self._freed if record.offset >= offset]
        heapq.heapify(self._freed)
        self.waiting -= len(gone)
        for record in gone:
            self.free(record.key_hash)
