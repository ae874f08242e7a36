"""The newest records in memory, shared by all members of the node, bounded in bytes.

Each partition has one window of consecutive offsets. A cursor inside a window is served from
memory; one below it catches up from the files. Windows lose their oldest part first, over all
partitions in the order in which the log grew.

Many groups read the same records. So what a segment holds is made into records once, for all of
them, and readers take no lock: at a hundred groups they would mostly wait for each other. A reader
finds its place by search and looks at what it found before it uses it; a window that lost its
oldest part meanwhile is searched again.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consumer_service.reading.encode import plain_records
from lakequeue.records import TopicPartition
from lakequeue.wire import UNDECODABLE


@dataclass(slots=True, frozen=True)
class Cut:
    """Records of one partition as a poll hands them out, without what belongs to a delivery.

    Shared by all who read: nobody may change them.
    """

    records: Sequence[dict[str, Any]]
    following: int
    """The offset after the last of them."""
    bytes: int
    """Of their keys and values."""


@dataclass(slots=True)
class _Made:
    """The records of a segment, and how many bytes the first 1, 2, … of them have."""

    records: list[dict[str, Any]]
    totals: list[int]


@dataclass(slots=True, eq=False)
class _Segment:
    where: TopicPartition
    first: int
    following: int
    rows: pa.Table
    bytes: int
    plain: bool = True
    """Whoever reads gets all of it: nothing expires, and nothing is known to be unreadable."""
    held: bool = True
    """It is in its window still."""
    made: _Made | None = None


_FIRST: Final = attrgetter("first")
_READY_SHARE: Final = 0.25
"""Of the bytes that are held, how many may also be there as records."""
_RECORD_BYTES: Final = 512
"""What a record takes beside what stands in it: a dictionary, and its numbers."""
_HEADER_BYTES: Final = 320


@dataclass(slots=True)
class _Window:
    segments: list[_Segment] = field(default_factory=list)


def split_partitions(rows: pa.Table) -> Iterator[pa.Table]:
    """Cut a table sorted by (topic, partition, offset) into runs of one partition each."""
    if rows.num_rows == 0:
        return
    topics = rows["topic_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    partitions = rows["partition"].to_numpy()
    changes = (np.diff(topics) != 0) | (np.diff(partitions) != 0)
    borders = [0, *(np.flatnonzero(changes) + 1).tolist(), rows.num_rows]
    for start, end in pairwise(borders):
        yield rows.slice(start, end - start)


def value_bytes(rows: pa.Table) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Bytes of key and value of the first 1, 2, … rows."""
    key, value = (
        pc.fill_null(pc.binary_length(rows[name]), 0).to_numpy() for name in ("key", "value")
    )
    return np.cumsum(key.astype(np.int64) + value)


def prefix_within(rows: pa.Table, max_rows: int, max_bytes: int) -> pa.Table:
    """The first rows of `rows` within both bounds (key + value), at least one of them."""
    rows = rows.slice(0, max_rows)
    if rows.num_rows <= 1:
        return rows
    fits = int(np.searchsorted(value_bytes(rows), max_bytes, side="right"))
    return rows.slice(0, max(1, fits))


class Segments:
    """Thread-safe: one writes, any number read."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._lock = threading.Lock()
        self._windows: dict[TopicPartition, _Window] = {}
        self._order: deque[_Segment] = deque()
        self._made: OrderedDict[_Segment, int] = OrderedDict()
        """Those whose records are there, in the order in which they were made; their bytes."""
        self._made_bytes = 0

    @property
    def bytes(self) -> int:
        """Bytes held now."""
        return self._bytes

    def append(self, where: TopicPartition, rows: pa.Table) -> None:
        """Add the newest rows of a partition; a hole before them starts the window anew.

        Rows that do not follow each other are not held: positions are counted in a window.
        """
        offsets = rows["offset"]
        first, following = offsets[0].as_py(), offsets[rows.num_rows - 1].as_py() + 1
        if not bool((np.diff(offsets.to_numpy()) == 1).all()):
            return
        expires = rows["expires_at"].null_count < rows.num_rows
        segment = _Segment(where, first, following, rows, rows.nbytes, plain=not expires)
        with self._lock:
            window = self._windows.get(where)
            if window is None or window.segments[-1].following != first:
                if window is not None:
                    for old in window.segments:
                        self._forget(old)
                    self._order = deque(s for s in self._order if s.where != where)
                self._windows[where] = _Window([segment])
            else:
                window.segments.append(segment)
            self._order.append(segment)
            self._bytes += segment.bytes
            while self._bytes > self._max_bytes and len(self._order) > 1:
                self._drop(self._order.popleft())

    def clear(self) -> None:
        """Hold nothing: what was held may have been erased. Readers go to the files."""
        with self._lock:
            self._windows = {}
            for segment in self._order:
                self._forget(segment)
            self._order.clear()

    def _forget(self, segment: _Segment) -> None:
        """It is held no more: nothing of it stays, whoever makes its records just now."""
        segment.held = False
        self._bytes -= segment.bytes
        self._unmake(segment)

    def _unmake(self, segment: _Segment) -> None:
        segment.made = None
        self._made_bytes -= self._made.pop(segment, 0)

    def _drop(self, oldest: _Segment) -> None:
        window = self._windows[oldest.where]
        self._forget(oldest)
        if len(window.segments) == 1:
            del self._windows[oldest.where]
        else:
            del window.segments[0]

    def read(
        self, where: TopicPartition, offset: int, max_rows: int, max_bytes: int
    ) -> pa.Table | None:
        """Rows from `offset` on, at least one; None when memory does not hold `offset`."""
        found: list[pa.Table] = []
        rows = 0
        for segment in self._from(where, offset):
            part = segment.rows.slice(max(0, offset - segment.first), max_rows - rows)
            found.append(part)
            rows += part.num_rows
            if rows >= max_rows:
                break
        if not found:
            return None
        return prefix_within(pa.concat_tables(found), max_rows, max_bytes)

    def cut(self, where: TopicPartition, offset: int, max_rows: int, max_bytes: int) -> Cut | None:
        """The records from `offset` on, at least one.

        None: memory does not hold `offset`, or some there have to be looked at one by one, since
        they expire or cannot be read.
        """
        records: list[dict[str, Any]] = []
        used = 0
        for segment in self._from(where, offset):
            made = self._records_of(segment)
            if made is None:
                break
            start = max(0, offset - segment.first)
            before = made.totals[start - 1] if start else 0
            end = min(len(made.records), start + max_rows - len(records))
            end = bisect_right(made.totals, before + max_bytes - used, start, end)
            if end == start and not records:
                end = start + 1
            records += made.records[start:end]
            if end > start:
                used += made.totals[end - 1] - before
            if end < len(made.records) or len(records) >= max_rows:
                break
        return Cut(records, offset + len(records), used) if records else None

    def _from(self, where: TopicPartition, offset: int) -> Iterator[_Segment]:
        """The segments that hold `offset` and what follows it, without a hole."""
        window = self._windows.get(where)
        if window is None:
            return
        at = bisect_right(window.segments, offset, key=_FIRST) - 1
        following = offset
        while 0 <= at < len(window.segments):
            try:
                segment = window.segments[at]
            except IndexError:
                return
            if not segment.first <= following < segment.following:
                # The oldest went away meanwhile, and all places are others now.
                moved = bisect_right(window.segments, following, key=_FIRST) - 1
                if moved == at or moved < 0:
                    return
                at = moved
                continue
            yield segment
            following, at = segment.following, at + 1

    def _records_of(self, segment: _Segment) -> _Made | None:
        made = segment.made
        if made is not None or not segment.plain:
            return made
        records = plain_records(segment.rows)
        if any(UNDECODABLE in record for record in records):
            segment.plain = False
            return None
        made = _Made(records, value_bytes(segment.rows).tolist())
        size = _bytes_made(segment.rows)
        with self._lock:
            if segment.made is not None or not segment.held:
                return segment.made or made
            segment.made = made
            self._made[segment] = size
            self._made_bytes += size
            while self._made_bytes > self._max_bytes * _READY_SHARE and len(self._made) > 1:
                self._unmake(next(iter(self._made)))
        return made


def _bytes_made(rows: pa.Table) -> int:
    """What the records of `rows` take, about: of small ones, several times what `rows` do."""
    headers: int = pc.sum(pc.list_value_length(rows["headers"])).as_py() or 0
    size: int = rows.nbytes
    size += rows.num_rows * _RECORD_BYTES + headers * _HEADER_BYTES
    return size
