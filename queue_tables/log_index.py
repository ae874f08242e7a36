"""Where in the files of `log` the records of a partition are. No I/O: footers are handed in.

Two levels. A file is known at first by the statistics of its commit: a box around all of its
rows, over topics, partitions and offsets. Only when a record is sought in that box is the file
*resolved* into spans, the exact runs of one partition in one row group, which then stay known.
So a long log costs one footer a file, once, and only as far as it is read.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import orjson

from lakequeue.errors import CorruptTable
from lakequeue.records import Offset
from queue_tables.delta_log import Add


class PartitionKey(NamedTuple):
    """A partition of one incarnation of a topic."""

    topic_id: str
    partition: int


class Span(NamedTuple):
    """Rows `start` to `end` (exclusive) of a row group: offsets `first` to `last` of one key."""

    first: Offset
    last: Offset
    path: str
    row_group: int
    start: int
    end: int


Resolve = Callable[[str], Iterable[tuple[PartitionKey, Span]]]
"""Reads the spans of a file from its footer (and, where a row group is mixed, its columns)."""


class _Box(NamedTuple):
    """What the statistics of a file say."""

    ordered_at: str
    path: str
    topic_low: str
    topic_high: str
    partition_low: int
    partition_high: int
    offset_low: int
    offset_high: int


@dataclass(slots=True)
class _Spans:
    """The known spans of one key, sorted by first offset."""

    firsts: list[int] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)

    def insert(self, span: Span) -> None:
        at = bisect.bisect(self.firsts, span.first)
        self.firsts.insert(at, span.first)
        self.spans.insert(at, span)

    def find(self, offset: int) -> Span | None:
        at = bisect.bisect(self.firsts, offset) - 1
        return self.spans[at] if at >= 0 and self.spans[at].last >= offset else None

    def drop(self, path: str) -> None:
        self.spans = [span for span in self.spans if span.path != path]
        self.firsts = [span.first for span in self.spans]


class LogIndex:
    """Finds the span of an offset. Not thread-safe: its reader locks."""

    def __init__(self) -> None:
        self._unresolved: dict[str, _Box] = {}
        self._arrays: _Arrays | None = None
        self._spans: dict[PartitionKey, _Spans] = {}
        self._keys_of: dict[str, set[PartitionKey]] = {}

    def add(self, file: Add) -> None:
        """A file has come into the log."""
        box = _box(file)
        if box is not None:
            self._unresolved[file.path] = box
            self._arrays = None

    def remove(self, path: str) -> None:
        """A file has left the log (compaction, retention)."""
        if self._unresolved.pop(path, None) is not None:
            self._arrays = None
        for key in self._keys_of.pop(path, ()):
            self._spans[key].drop(path)

    def find(self, key: PartitionKey, offset: int, resolve: Resolve) -> Span | None:
        """The span that holds `offset`; `None` if no file of the log does."""
        known = self._spans.setdefault(key, _Spans())
        span = known.find(offset)
        if span is not None:
            return span
        for path in self._candidates(key, offset):
            self._resolve(path, resolve)
            span = known.find(offset)
            if span is not None:
                return span
        return None

    def spans(
        self, key: PartitionKey, resolve: Resolve, wanted: Callable[[str], bool]
    ) -> Iterator[Span]:
        """The spans of the key in wanted files, in the order of offsets.

        A file is looked into only when no known span can be the next one. What comes and goes
        between two of them may be in it or not.
        """
        left = deque(one for one in self._lows(key) if wanted(one[0]))
        known = self._spans.setdefault(key, _Spans())
        done = -1
        while True:
            at = bisect.bisect(known.firsts, done)
            span = next((one for one in known.spans[at:] if wanted(one.path)), None)
            if left and (span is None or left[0][1] <= span.first):
                path, _ = left.popleft()
                if path in self._unresolved:
                    self._resolve(path, resolve)
                continue
            if span is None:
                return
            yield span
            done = span.first

    def first(self, key: PartitionKey, resolve: Resolve) -> Offset | None:
        """The lowest offset that is still in the log."""
        known = self._spans.setdefault(key, _Spans())
        for path, low in self._lows(key):
            if known.firsts and known.firsts[0] <= low:
                break  # no other file can begin lower
            self._resolve(path, resolve)
        return known.spans[0].first if known.spans else None

    def _resolve(self, path: str, resolve: Resolve) -> None:
        found = list(resolve(path))
        keys = self._keys_of.setdefault(path, set())
        for key, span in found:
            self._spans.setdefault(key, _Spans()).insert(span)
            keys.add(key)
        del self._unresolved[path]
        if self._arrays is not None:
            self._arrays.alive[self._arrays.at[path]] = False

    def _candidates(self, key: PartitionKey, offset: int | None) -> list[str]:
        """Files not resolved whose box holds (key, offset), the earliest ordered first."""
        return [box.path for box in self._boxes().holding(key, offset)]

    def _lows(self, key: PartitionKey) -> Iterator[tuple[str, int]]:
        """(path, lowest offset in the box) of candidates, rising."""
        for box in sorted(self._boxes().holding(key, None), key=lambda box: box.offset_low):
            yield box.path, box.offset_low

    def _boxes(self) -> _Arrays:
        # Rebuilt when files have come or gone. Resolved ones are only struck out.
        if self._arrays is None:
            self._arrays = _Arrays(sorted(self._unresolved.values()))
        return self._arrays


class _Arrays:
    """Boxes as columns, so that tens of thousands are looked through in well under 1 ms."""

    def __init__(self, boxes: list[_Box]) -> None:
        self.boxes = boxes
        self.at = {box.path: i for i, box in enumerate(boxes)}
        self.alive = np.ones(len(boxes), dtype=bool)
        self._partition_low = np.array([box.partition_low for box in boxes], dtype=np.int64)
        self._partition_high = np.array([box.partition_high for box in boxes], dtype=np.int64)
        self._offset_low = np.array([box.offset_low for box in boxes], dtype=np.int64)
        self._offset_high = np.array([box.offset_high for box in boxes], dtype=np.int64)

    def holding(self, key: PartitionKey, offset: int | None) -> list[_Box]:
        """The boxes that hold the key, and the offset if one is given; earliest ordered first."""
        found = (
            self.alive
            & (self._partition_low <= key.partition)
            & (self._partition_high >= key.partition)
        )
        if offset is not None:
            found &= (self._offset_low <= offset) & (self._offset_high >= offset)
        boxes = [self.boxes[i] for i in np.flatnonzero(found)]
        return [box for box in boxes if box.topic_low <= key.topic_id <= box.topic_high]


def _box(file: Add) -> _Box | None:
    stats = orjson.loads(file.stats or "{}")
    if stats.get("numRecords") == 0:
        return None
    try:
        low, high = stats["minValues"], stats["maxValues"]
        return _Box(
            low.get("ordered_at", ""),
            file.path,
            low["topic_id"],
            high["topic_id"],
            low["partition"],
            high["partition"],
            low["offset"],
            high["offset"],
        )
    except KeyError as error:
        raise CorruptTable(
            f"log file {file.path} has no statistics on {error}",
            hint="rewrite it with statistics on topic_id, partition and offset",
        ) from error
