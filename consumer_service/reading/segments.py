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
from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consumer_service.reading.encode import plain_records
from consumer_service.reading.runs import Run, prefix_within
from lakequeue.records import TopicPartition
from lakequeue.wire import UNDECODABLE
from queue_tables.log.record_bytes import bytes_up_to


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
    """The records of a block, and how many bytes the first 1, 2, … of them have."""

    records: list[dict[str, Any]]
    totals: list[int]
    unreadable: list[int]
    """Places of records that cannot be read."""


@dataclass(slots=True, eq=False)
class _Block:
    """Rows of one commit that are made into records together: few rows cost as much as many."""

    rows: pa.Table
    bytes: int = 0
    held: int = 0
    """How many segments of it are in their windows still."""
    made: _Made | None = None


@dataclass(slots=True, eq=False)
class _Segment:
    where: TopicPartition
    first: int
    following: int
    block: _Block
    start: int
    """Its first row in the block."""
    bytes: int
    plain: bool
    """Whoever reads gets all of it: nothing expires, and nothing is known to be unreadable."""

    @property
    def end(self) -> int:
        """The row after its last one in the block."""
        return self.start + self.following - self.first

    @property
    def rows(self) -> pa.Table:
        """All that it holds."""
        return self.block.rows.slice(self.start, self.following - self.first)


_FIRST: Final = attrgetter("first")
_READY_SHARE: Final = 0.25
"""Of the bytes that are held, how many may also be there as records."""
_RECORD_BYTES: Final = 512
"""What a record takes beside what stands in it: a dictionary, and its numbers."""
_HEADER_BYTES: Final = 320
_BLOCK_ROWS: Final = 256
"""A block has more only if one partition has."""


@dataclass(slots=True)
class _Window:
    segments: list[_Segment] = field(default_factory=list)


class Segments:
    """Thread-safe: one writes, any number read."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._lock = threading.Lock()
        self._windows: dict[TopicPartition, _Window] = {}
        self._order: deque[_Segment] = deque()
        self._made: OrderedDict[_Block, int] = OrderedDict()
        """Those whose records are there, in the order in which they were made; their bytes."""
        self._made_bytes = 0

    @property
    def bytes(self) -> int:
        """Bytes held now."""
        return self._bytes

    def append(self, rows: pa.Table, runs: Sequence[Run]) -> None:
        """Add the newest rows of partitions: `runs` of `rows`, in their order there.

        A hole before a run starts the window of its partition anew.
        """
        if not runs:
            return
        values = np.concatenate([[0], bytes_up_to(rows)])
        each = max(0, rows.nbytes - int(values[-1])) / rows.num_rows
        expires = np.concatenate([[0], np.cumsum(pc.is_valid(rows["expires_at"]).to_numpy())])
        for some in _blocks(runs):
            start, end = some[0].start, some[-1].start + some[-1].length
            block = _Block(rows.slice(start, end - start))
            for run in some:
                stop = run.start + run.length
                segment = _Segment(
                    run.where,
                    run.first,
                    run.first + run.length,
                    block,
                    run.start - start,
                    int(values[stop] - values[run.start] + each * run.length),
                    plain=bool(expires[stop] == expires[run.start]),
                )
                self._append(segment)

    def _append(self, segment: _Segment) -> None:
        where = segment.where
        with self._lock:
            window = self._windows.get(where)
            if window is None or window.segments[-1].following != segment.first:
                if window is not None:
                    for old in window.segments:
                        self._forget(old)
                    self._order = deque(s for s in self._order if s.where != where)
                self._windows[where] = _Window([segment])
            else:
                window.segments.append(segment)
            segment.block.held += 1
            segment.block.bytes += segment.bytes
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
        """It is held no more. Of a block of which none is held nothing stays, whoever makes its
        records just now."""
        self._bytes -= segment.bytes
        segment.block.held -= 1
        if not segment.block.held:
            self._unmake(segment.block)

    def _unmake(self, block: _Block) -> None:
        block.made = None
        self._made_bytes -= self._made.pop(block, 0)

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
            start = segment.start + max(0, offset - segment.first)
            before = made.totals[start - 1] if start else 0
            end = min(segment.end, start + max_rows - len(records))
            end = bisect_right(made.totals, before + max_bytes - used, start, end)
            if end == start and not records:
                end = start + 1
            records += made.records[start:end]
            if end > start:
                used += made.totals[end - 1] - before
            if end < segment.end or len(records) >= max_rows:
                break
        return Cut(records, offset + len(records), used) if records else None

    def at_hand(self, where: TopicPartition, offset: int, most: int) -> int | None:
        """Bytes from `offset` on, about, if `cut` has them all; counting ends above `most`.

        Or those that `cut` makes into records first, with those of other partitions, if there are
        more of them than `most`.
        """
        size: int | None = None
        unmade = 0
        for segment in self._from(where, offset):
            if not segment.plain:
                return None
            size = (size or 0) + segment.bytes
            if segment.block.made is None:
                unmade += segment.block.bytes
            if max(size, unmade) > most:
                return max(size, unmade)
        return size

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
        """Those of its whole block; None if some of its own have to be looked at one by one."""
        if not segment.plain:
            return None
        made = segment.block.made or self._make(segment.block)
        if made.unreadable:
            at = bisect_left(made.unreadable, segment.start)
            if at < len(made.unreadable) and made.unreadable[at] < segment.end:
                segment.plain = False
                return None
        return made

    def _make(self, block: _Block) -> _Made:
        records = plain_records(block.rows)
        unreadable = [at for at, record in enumerate(records) if UNDECODABLE in record]
        made = _Made(records, bytes_up_to(block.rows).tolist(), unreadable)
        size = _bytes_made(block.rows)
        with self._lock:
            if block.made is not None or not block.held:
                return block.made or made
            block.made = made
            self._made[block] = size
            self._made_bytes += size
            while self._made_bytes > self._max_bytes * _READY_SHARE and len(self._made) > 1:
                self._unmake(next(iter(self._made)))
        return made


def _blocks(runs: Sequence[Run]) -> Iterator[list[Run]]:
    """Runs that lie beside each other, so many that a block of them is worth its making."""
    some: list[Run] = []
    for run in runs:
        if some:
            end = some[-1].start + some[-1].length
            if run.start != end or run.start + run.length - some[0].start > _BLOCK_ROWS:
                yield some
                some = []
        some.append(run)
    yield some


def _bytes_made(rows: pa.Table) -> int:
    """What the records of `rows` take, about: of small ones, several times what `rows` do."""
    headers: int = pc.sum(pc.list_value_length(rows["headers"])).as_py() or 0
    size: int = rows.nbytes
    size += rows.num_rows * _RECORD_BYTES + headers * _HEADER_BYTES
    return size
