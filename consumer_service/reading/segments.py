"""The newest records in memory, shared by all members of the node, bounded in bytes.

Each partition has one window of consecutive offsets. A cursor inside a window is served from
memory; one below it catches up from the files. Windows lose their oldest part first, over all
partitions in the order in which the log grew.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakequeue.records import TopicPartition


@dataclass(slots=True)
class _Segment:
    where: TopicPartition
    first: int
    following: int
    rows: pa.Table
    bytes: int


@dataclass(slots=True)
class _Window:
    segments: deque[_Segment] = field(default_factory=deque)


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


def prefix_within(rows: pa.Table, max_rows: int, max_bytes: int) -> pa.Table:
    """The first rows of `rows` within both bounds (key + value), at least one of them."""
    rows = rows.slice(0, max_rows)
    if rows.num_rows <= 1:
        return rows
    lengths = [
        pc.fill_null(pc.binary_length(rows[name]), 0).to_numpy() for name in ("key", "value")
    ]
    total = np.cumsum(lengths[0].astype(np.int64) + lengths[1])
    fits = int(np.searchsorted(total, max_bytes, side="right"))
    return rows.slice(0, max(1, fits))


class Segments:
    """Thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._lock = threading.Lock()
        self._windows: dict[TopicPartition, _Window] = {}
        self._order: deque[_Segment] = deque()

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
        segment = _Segment(where, first, following, rows, rows.nbytes)
        with self._lock:
            window = self._windows.setdefault(where, _Window())
            if window.segments and window.segments[-1].following != first:
                self._bytes -= sum(s.bytes for s in window.segments)
                self._order = deque(s for s in self._order if s.where != where)
                window.segments.clear()
            window.segments.append(segment)
            self._order.append(segment)
            self._bytes += segment.bytes
            while self._bytes > self._max_bytes and len(self._order) > 1:
                self._drop(self._order.popleft())

    def clear(self) -> None:
        """Hold nothing: what was held may have been erased. Readers go to the files."""
        with self._lock:
            self._windows.clear()
            self._order.clear()
            self._bytes = 0

    def _drop(self, oldest: _Segment) -> None:
        window = self._windows[oldest.where]
        window.segments.popleft()
        self._bytes -= oldest.bytes
        if not window.segments:
            del self._windows[oldest.where]

    def read(
        self, where: TopicPartition, offset: int, max_rows: int, max_bytes: int
    ) -> pa.Table | None:
        """Rows from `offset` on, at least one; None when memory does not hold `offset`."""
        with self._lock:
            window = self._windows.get(where)
            if window is None or not window.segments[0].first <= offset:
                return None
            found: list[pa.Table] = []
            rows = 0
            for segment in window.segments:
                if segment.following <= offset:
                    continue
                part = segment.rows.slice(max(0, offset - segment.first), max_rows - rows)
                found.append(part)
                rows += part.num_rows
                if rows >= max_rows:
                    break
        if not found:
            return None
        return prefix_within(pa.concat_tables(found), max_rows, max_bytes)
