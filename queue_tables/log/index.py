"""Where in the files of `log` the records of a partition are. No I/O: footers are handed in.

Two levels. A file is known at first by the statistics of its commit: a box around all of its
rows, over topics, partitions and offsets. Only when a record is sought in that box is the file
*resolved* into spans, the exact runs of one partition in one row group, which then stay known.
So a long log costs one footer a file, once, and only as far as it is read.

What the queue writes has each offset once, and no gap. Another engine may have deleted rows, or put
copies in: so the spans of a partition are kept free of overlaps, what a second file holds as well
is noted as a `Double`, and files of other engines are resolved as soon as what they may hold is
read.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from lakequeue.records import Offset
from queue_tables.delta.actions import Add
from queue_tables.files.stats import FileStats


class PartitionKey(NamedTuple):
    """A partition of one incarnation of a topic."""

    topic_id: str
    partition: int


class Span(NamedTuple):
    """Rows `start` to `end` (exclusive) of a row group: offsets `first` to `last` of one key.

    Without a gap: each row has the offset after the one before it.
    """

    first: Offset
    last: Offset
    path: str
    row_group: int
    start: int
    end: int

    def cut(self, first: int, last: int) -> Span:
        """The part from offset `first` to `last`, as far as it is in here."""
        first, last = max(first, self.first), min(last, self.last)
        start, end = self.start + first - self.first, self.end - (self.last - last)
        return self._replace(first=Offset(first), last=Offset(last), start=start, end=end)


class Double(NamedTuple):
    """The same offsets of a partition in two places."""

    key: PartitionKey
    known: Span
    copy: Span


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

    def insert(self, span: Span) -> list[tuple[Span, Span]]:
        """Put in what is new of it; what is known already: (where, the same part of `span`)."""
        at = bisect.bisect(self.firsts, span.first)
        if at and self.spans[at - 1].last >= span.first:
            at -= 1
        doubled = []
        first: int = span.first
        while at < len(self.spans) and (known := self.spans[at]).first <= span.last:
            if first < known.first:
                self._put(at, span.cut(first, known.first - 1))
                at += 1
            low, high = max(first, known.first), min(span.last, known.last)
            doubled.append((known.cut(low, high), span.cut(low, high)))
            first = known.last + 1
            at += 1
        if first <= span.last:
            self._put(at, span.cut(first, span.last))
        return doubled

    def _put(self, at: int, span: Span) -> None:
        self.firsts.insert(at, span.first)
        self.spans.insert(at, span)

    def find(self, offset: int) -> Span | None:
        at = bisect.bisect(self.firsts, offset) - 1
        return self.spans[at] if at >= 0 and self.spans[at].last >= offset else None

    def after(self, offset: int) -> Span | None:
        """The first that begins behind `offset`."""
        at = bisect.bisect(self.firsts, offset)
        return self.spans[at] if at < len(self.spans) else None

    def drop(self, path: str) -> None:
        self.spans = [span for span in self.spans if span.path != path]
        self.firsts = [span.first for span in self.spans]


class LogIndex:
    """Finds the span of an offset. Not thread-safe: its reader locks.

    `trusted` tells of a path whether the queue itself wrote the file.
    """

    def __init__(self, trusted: Callable[[str], bool] = lambda _: True) -> None:
        self._trusted = trusted
        self._known: dict[str, _Box] = {}
        self._unresolved: dict[str, _Box] = {}
        self._suspects: set[str] = set()
        """Unresolved files that the queue did not write."""
        self._arrays: _Arrays | None = None
        self._spans: dict[PartitionKey, _Spans] = {}
        self._keys_of: dict[str, set[PartitionKey]] = {}
        self._doubled: dict[str, set[str]] = {}
        self._doubles: list[Double] = []

    def add(self, file: Add) -> None:
        """A file has come into the log."""
        box = _box(file)
        if box is not None:
            self._known[file.path] = box
            self._unresolve(file.path)

    def remove(self, path: str) -> None:
        """A file has left the log (compaction, retention)."""
        self._known.pop(path, None)
        if self._unresolved.pop(path, None) is not None:
            self._arrays = None
        self._suspects.discard(path)
        self._drop_spans(path)
        for other in self._doubled.pop(path, ()):
            # What the other was thought to hold as well, it alone holds now.
            self._doubled.get(other, set()).discard(path)
            if other in self._known:
                self._drop_spans(other)
                self._unresolve(other)

    def _unresolve(self, path: str) -> None:
        self._unresolved[path] = self._known[path]
        self._arrays = None
        if not self._trusted(path):
            self._suspects.add(path)

    def _drop_spans(self, path: str) -> None:
        for key in self._keys_of.pop(path, ()):
            self._spans[key].drop(path)

    def doubles(self) -> list[Double]:
        """What was found in two places since the last call."""
        found, self._doubles = self._doubles, []
        return found

    def find(self, key: PartitionKey, offset: int, resolve: Resolve) -> Span | None:
        """The span that holds `offset`; `None` if no file of the log does."""
        span = self._found(key, offset, resolve)
        if span is not None and self._suspects:
            for box in self._boxes().holding(key, offset, span.last, self._suspects):
                self._resolve(box.path, resolve)
        return span

    def _found(self, key: PartitionKey, offset: int, resolve: Resolve) -> Span | None:
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

    def after(self, key: PartitionKey, offset: int, resolve: Resolve) -> Span | None:
        """The first span that begins behind `offset`, which no file holds; `None`: none does."""
        known = self._spans.setdefault(key, _Spans())
        for path, low in self._lows(key, offset):
            span = known.after(offset)
            if span is not None and span.first <= low:
                break
            self._resolve(path, resolve)
        return known.after(offset)

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
        if path not in self._unresolved:
            return
        found = list(resolve(path))
        keys = self._keys_of.setdefault(path, set())
        for key, span in found:
            for known, copy in self._spans.setdefault(key, _Spans()).insert(span):
                self._doubles.append(Double(key, known, copy))
                if known.path != path:
                    self._doubled.setdefault(path, set()).add(known.path)
                    self._doubled.setdefault(known.path, set()).add(path)
            keys.add(key)
        del self._unresolved[path]
        self._suspects.discard(path)
        if self._arrays is not None:
            self._arrays.alive[self._arrays.at[path]] = False

    def _candidates(self, key: PartitionKey, offset: int) -> list[str]:
        """Files not resolved whose box holds (key, offset), the earliest ordered first."""
        return [box.path for box in self._boxes().holding(key, offset, offset)]

    def _lows(self, key: PartitionKey, from_offset: int = 0) -> Iterator[tuple[str, int]]:
        """(path, lowest offset in the box) of what may be at `from_offset` or behind, rising."""
        boxes = self._boxes().holding(key, from_offset, _HIGHEST)
        for box in sorted(boxes, key=lambda box: box.offset_low):
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

    def holding(
        self, key: PartitionKey, low: int, high: int, among: Container[str] | None = None
    ) -> list[_Box]:
        """The boxes that may hold offsets `low` to `high` of the key; earliest ordered first."""
        found = (
            self.alive
            & (self._partition_low <= key.partition)
            & (self._partition_high >= key.partition)
            & (self._offset_low <= high)
            & (self._offset_high >= low)
        )
        boxes = [self.boxes[i] for i in np.flatnonzero(found)]
        return [
            box
            for box in boxes
            if box.topic_low <= key.topic_id <= box.topic_high
            and (among is None or box.path in among)
        ]


_HIGHEST = (1 << 63) - 1
_ANYTHING = ("", "\U0010ffff")


def _box(file: Add) -> _Box | None:
    """What a file may hold, by its statistics; any row at all, where they do not say."""
    stats = FileStats(file.stats)
    if stats.records == 0:
        return None
    return _Box(
        stats.low("ordered_at", str) or "",
        file.path,
        *stats.bounds("topic_id", str, *_ANYTHING),
        *stats.bounds("partition", int, 0, _HIGHEST),
        *stats.bounds("offset", int, 0, _HIGHEST),
    )
