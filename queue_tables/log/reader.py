"""Reads ranges of offsets from `log`: by file, then row group, each decoded once.

A reader keeps an index of where each partition's records are, and the row groups decoded last. A
consumer that goes through a partition in polls of some hundred records decodes each row group
once; consumers of the same partition share it.

Each offset comes once, in order, whoever has rewritten the files. Offsets that are in no file,
because another engine deleted their rows, are a *gap*: reads go on behind it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from lakequeue.clock import Micros
from lakequeue.errors import CorruptTable, OffsetOutOfRange, TailLost
from lakequeue.records import Offset, Partition, TopicId, Version
from queue_tables.delta.actions import Add, Commit
from queue_tables.delta.table import TableLog
from queue_tables.files.stats import newest_micros
from queue_tables.log.contested import Contested, differing
from queue_tables.log.decoded import Pieces, decoding, of_span, prefix_of
from queue_tables.log.files import LogFiles
from queue_tables.log.gaps import GapsSeen, gaps, out_of_range
from queue_tables.log.index import Double, LogIndex, PartitionKey, Span
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import next_offsets_in, offset_mark
from queue_tables.schema.schemas import LOG

COLUMNS = (
    "topic", "topic_id", "partition", "offset", "key", "value", "key_format", "value_format",
    "headers", "timestamp", "ordered_at", "message_id", "deliver_at", "expires_at",
)  # fmt: skip
"""What a consumer receives."""
_MOST_NEWS = 1_000  # commits kept for who follows the log; who only reads it never asks for them
_MOST_SOUGHT = 64  # row groups that one call looks at: on object storage each may cost a request


class LogReader:
    """Reads `log` of one root. Thread-safe.

    `columns` are those of the tables returned; decoded row groups are kept up to `cache_bytes`.
    """

    def __init__(
        self, root: QueueRoot, columns: Sequence[str] = COLUMNS, cache_bytes: int = 64 << 20
    ) -> None:
        self._columns = list(dict.fromkeys([*columns, "offset"]))
        self._lock = threading.RLock()
        self._store, self._cache_bytes = root.store, cache_bytes
        self._table = TableLog(root.store, LOG.name)
        self._gaps = GapsSeen()
        self._durable = Version(-1)
        self._news: deque[Commit] = deque(maxlen=_MOST_NEWS)
        self._open()

    @property
    def version(self) -> Version:
        """The version of `log` that reads go by."""
        return self._table.version

    def refresh(self) -> list[Commit]:
        """Take in what was committed since, durable.

        Returns the commits since the last call, of reads meanwhile too; [] after a clean-up.
        """
        with self._lock:
            self._catch_up()
            commits = list(self._news)
            self._news.clear()
            return commits

    def _catch_up(self) -> None:
        with self._lock:
            self._indexed()
            try:
                commits = self._table.refresh()
            except TailLost:
                self._open()
                return
            for commit in commits:
                for removed in commit.removes:
                    self._index.remove(removed.path)
                    self._files.forget(removed.path)
                    self._contested.forget(removed.path)
                    self._pieces.forget(removed.path)
                for added in commit.adds:
                    self._files.add(added)
                    self._index.add(added)
            self._news.extend(commits)
            self._taken_in = self._table.version
            if self._table.version > self._durable:
                self._table.make_durable()
                self._durable = self._table.version

    def marks(self) -> Mapping[str, int]:
        """Every mark (`queue_tables/schema/marks.py`), as of the last refresh."""
        with self._lock:
            return dict(self._table.txns)

    def end_offset(self, topic_id: TopicId, partition: Partition) -> Offset:
        """The offset that the next record will get, as of the last refresh."""
        return Offset(self._table.txns.get(offset_mark(topic_id, partition), 0))

    def first_offset(self, topic_id: TopicId, partition: Partition) -> Offset:
        """The lowest offset still in the log; the end offset if there is none."""
        with self._lock:
            first = self._indexed().first(PartitionKey(topic_id, partition), self._files.spans)
        return self.end_offset(topic_id, partition) if first is None else first

    def read_range(
        self,
        topic_id: TopicId,
        partition: Partition,
        from_offset: Offset,
        max_rows: int,
        max_bytes: int = 8 << 20,
    ) -> pa.Table:
        """Records from `from_offset` on, in order; gaps are skipped.

        At most `max_rows`, and no more than `max_bytes` of keys, values and headers, but one record
        at least. An empty table: there is none up to the end. Raises `OffsetOutOfRange` (with
        `first_offset` and `end_offset`) for an offset below retention or beyond the end, and
        `CorruptTable` at a record that stands in two files with different content.
        """
        if from_offset >= self.end_offset(topic_id, partition):
            self._catch_up()
        end = self.end_offset(topic_id, partition)
        if from_offset >= end:
            if from_offset > end:
                raise self._out_of_range(topic_id, partition, from_offset)
            return self._empty()
        key = PartitionKey(topic_id, partition)
        parts: list[pa.Table] = []
        at, rows, size = int(from_offset), max_rows, max_bytes
        while rows > 0 and at < end and size > 0:
            try:
                part, taken, at = self._take(key, at, end, rows, size, has_some=bool(parts))
            except CorruptTable:
                if not parts:
                    raise
                break  # what comes before it is good
            if part.num_rows == 0:
                break
            parts.append(part)
            rows, size = rows - part.num_rows, size - taken
        return pa.concat_tables(parts) if parts else self._empty()

    def offset_at_time(
        self,
        topic_id: TopicId,
        partition: Partition,
        at: Micros,
        column: Literal["timestamp", "ordered_at"] = "timestamp",
    ) -> Offset:
        """The first offset whose record's time is at or after `at`; else the end offset."""

        def wanted(path: str) -> bool:
            file = self._table.files.get(path)
            newest = None if file is None else newest_micros(file.stats, column)
            return newest is None or newest >= at

        with self._lock:
            index = self._indexed()
        spans = index.spans(PartitionKey(topic_id, partition), self._files.spans, wanted)
        while True:
            with self._lock:
                span = next(spans, None)
            if span is None:
                return self.end_offset(topic_id, partition)
            times = self.columns_of(span, [column, "offset"])
            later = pc.greater_equal(times.column(column).cast(pa.int64()), at)
            found = pc.index(later, True).as_py()
            if found >= 0:
                return Offset(times.column("offset")[found].as_py())

    def sought(
        self,
        topic_id: TopicId,
        partition: Partition,
        start: Offset,
        max_rows: int,
        may_hold: Callable[[Mapping[str, tuple[int, int]]], bool],
    ) -> tuple[Offset, Offset]:
        """The first range [from, to) behind `start` whose row groups may hold what is sought.

        `may_hold` gets the lowest and highest `offset` and `timestamp` of the partition's rows in a
        row group, by its statistics: what it refuses is in no range of offsets, and need not be
        decoded. Ends with the row group that makes it `max_rows`. Empty if there is none, at the
        end or where enough was looked at: call again from there. Raises as `read_range`.
        """
        key = PartitionKey(topic_id, partition)
        at, end = int(start), self.end_offset(topic_id, partition)
        begin: int | None = None
        for _ in range(_MOST_SOUGHT):
            if at >= end or (begin is not None and at >= begin + max_rows):
                break
            try:
                span = self._locate(key, at)
                if span is None:
                    at = end
                    break
                at = max(at, span.first)
                times = self._files.times(span.path, span.row_group)
                holds = may_hold({"offset": (int(span.first), int(span.last))} | times)
            except CorruptTable:
                if begin is None:
                    raise
                break
            except FileNotFoundError:
                # Rewritten by compaction: `read_range` looks for it anew.
                return Offset(at if begin is None else begin), Offset(at + 1)
            if holds and begin is None:
                begin = at
            if not holds and begin is not None:
                break
            at = span.last + 1
        return Offset(at if begin is None else begin), Offset(at)

    def spans(
        self, topic_id: TopicId, partition: Partition, start: Offset, end: Offset
    ) -> list[Span]:
        """Where the records [start, end) are, in the order of offsets, as of the last refresh.

        The first and the last span may reach beyond; gaps are left out. Raises `OffsetOutOfRange`
        for an offset below retention, `CorruptTable` as `read_range`.
        """
        key = PartitionKey(topic_id, partition)
        found: list[Span] = []
        at = int(start)
        while at < end and (span := self._locate(key, at)) is not None and span.first < end:
            found.append(span)
            at = span.last + 1
        return found

    def gaps(self, topic_id: TopicId, partition: Partition) -> list[tuple[Offset, Offset]]:
        """The offsets [from, to) that are in no file, though lower ones are, or were.

        Looks into every file that may hold records of the partition. What retention has removed
        is no gap; but the newest records are one when they are gone.
        """
        key, end = PartitionKey(topic_id, partition), self.end_offset(topic_id, partition)
        with self._lock:
            spans = list(self._indexed().spans(key, self._files.spans, lambda _: True))
        known = [(int(span.first), int(span.last)) for span in spans]
        first = known[0][0] if known else end
        return [(Offset(low), Offset(high)) for low, high in gaps(known, first, end)]

    def gap_offsets(self) -> int:
        """How many offsets without a record reads have come upon, each counted once."""
        with self._lock:
            return self._gaps.offsets

    def columns_of(self, span: Span, columns: Sequence[str]) -> pa.Table:
        """Some columns of a span, `offset` among them; nothing is kept of what was decoded."""
        return of_span(self._files.rows(span.path, span.row_group, columns), span)

    def mixed_up(self, path: str, row_group: int) -> bool:
        """Whether the rows of a row group that was located are to be put in order."""
        return self._files.mixed_up(path, row_group)

    def is_plain(self) -> bool:
        """Whether every reader of Delta sees the log as this one: no other engine changed it."""
        return self._table.is_settled and all(map(self._files.is_trusted, self._table.files))

    def parts(self, path: str) -> dict[PartitionKey, tuple[Offset, Offset]]:
        """The partitions that have records in a file: lowest and highest offset of each.

        Raises `FileNotFoundError` if the file was vacuumed.
        """
        found: dict[PartitionKey, tuple[Offset, Offset]] = {}
        for key, span in self._files.spans(path):
            first, last = found.get(key, (span.first, span.last))
            found[key] = min(first, span.first), max(last, span.last)
        return found

    def decoded_bytes(self, path: str) -> int:
        """About what the rows of a file are in memory, by its footer.

        Raises `FileNotFoundError` if the file was vacuumed.
        """
        return self._files.decoded_bytes(path)

    def topic_ids(self) -> set[TopicId]:
        """Every incarnation of a topic that was ever ordered, as of the last refresh."""
        return {where.topic_id for where in next_offsets_in(self._table.txns)}

    def file(self, path: str) -> Add:
        """A file of the log, as of the last refresh. Raises `KeyError`."""
        return self._table.files[path]

    def files(self) -> list[Add]:
        """Every file of the log, with its statistics, as of the last refresh."""
        with self._lock:
            files = list(self._table.files.values())
        return [self._files.with_stats(file) for file in files]

    # -- one piece --------------------------------------------------------------------------------

    def _take(
        self, key: PartitionKey, at: int, end: int, rows: int, size: int, *, has_some: bool
    ) -> tuple[pa.Table, int, int]:
        """Rows of one span from offset `at` on, or behind a gap there; bytes; where to go on."""
        try:
            span, found = self._rows_at(key, at)
        except FileNotFoundError:
            # Rewritten by compaction and vacuumed since: the newer version has it elsewhere.
            self._catch_up()
            try:
                span, found = self._rows_at(key, at)
            except FileNotFoundError as error:
                raise CorruptTable(
                    f"log file {error} is gone, and the log still names it",
                    hint="restore the file from a backup",
                ) from error
        if span is None or span.first >= end:
            return self._empty(), 0, at
        # What stands at the end or behind it, another engine has put there: it has no number yet.
        start = max(at, span.first)
        part = found.slice(start - span.first, min(rows, end - start))
        part, taken = prefix_of(part, size, 0 if has_some else 1)
        return part, taken, start + part.num_rows

    def _rows_at(self, key: PartitionKey, at: int) -> tuple[Span | None, pa.Table]:
        span = self._locate(key, at, reads=True)
        return span, self._empty() if span is None else self._rows_of(span)

    def _rows_of(self, span: Span) -> pa.Table:
        return of_span(self._pieces.get(span.path, span.row_group, self._decode), span)

    def _locate(self, key: PartitionKey, offset: int, *, reads: bool = False) -> Span | None:
        """The span that holds `offset`, else the next one, or `None`; `reads`: it is read next."""
        topic_id, partition = TopicId(key.topic_id), Partition(key.partition)
        with self._lock:
            index = self._indexed()
            span = index.find(key, offset, self._decoding if reads else self._files.spans)
            if span is None:
                first = index.first(key, self._files.spans)
                if first is None or offset < first:
                    raise self._out_of_range(topic_id, partition, offset)
                span = index.after(key, offset, self._files.spans)
                end = self.end_offset(topic_id, partition)
                self._gaps.note(key, offset, end if span is None else min(span.first, end))
            for double in index.doubles():
                self._compare(double)
            return self._contested.before(key, offset, span)

    def _compare(self, double: Double) -> None:
        """Two copies of the same records are as good as one, unless they differ."""
        rows, others = self._rows_of(double.known), self._rows_of(double.copy)
        found = differing(rows, others)
        if found is not None:
            offset = rows["offset"][found].as_py()
            self._contested.note(double.key, offset, double.known.path, double.copy.path)

    def _out_of_range(
        self, topic_id: TopicId, partition: Partition, offset: int
    ) -> OffsetOutOfRange:
        first = self.first_offset(topic_id, partition)
        end = self.end_offset(topic_id, partition)
        return out_of_range(f"{topic_id}/{partition}", offset, first, end)

    def _empty(self) -> pa.Table:
        return LOG.file_arrow.empty_table().select(self._columns)

    # -- files ------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._taken_in = Version(-2)
        self._news.clear()
        self._table.open()
        self._table.make_durable()
        self._pieces: Pieces = Pieces(self._cache_bytes)
        self._files: LogFiles = LogFiles(self._store)
        self._decoding = decoding(self._files, self._pieces, self._columns)
        self._index: LogIndex = LogIndex(self._files.is_trusted)
        self._contested: Contested = Contested()
        for file in self._table.files.values():
            self._files.add(file)
            self._index.add(file)
        self._taken_in = self._table.version

    def _indexed(self) -> LogIndex:
        """The index, of every file up to the ends that are told. The caller has the lock.

        Were it behind them, records that are there would be taken for a gap, and skipped.
        """
        if self._taken_in != self._table.version:
            self._open()
        return self._index

    def _decode(self, path: str, row_group: int) -> pa.Table:
        return self._files.rows(path, row_group, self._columns)
