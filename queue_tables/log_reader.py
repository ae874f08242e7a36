"""Reads ranges of offsets from `log`: by file, then row group, each decoded once.

A reader keeps an index of where each partition's records are, and the row groups decoded last. A
consumer that goes through a partition in polls of some hundred records decodes each row group
once; consumers of the same partition share it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakequeue.clock import Micros
from lakequeue.errors import CorruptTable, OffsetOutOfRange, TailLost
from lakequeue.records import Offset, Partition, TopicId, Version
from queue_tables.decoded import Pieces
from queue_tables.delta_log import Add, Commit
from queue_tables.log_index import LogIndex, PartitionKey, Span
from queue_tables.parquet import complete, damage_named, newest_micros
from queue_tables.root import QueueRoot
from queue_tables.row_groups import INDEX_COLUMNS, only_key, runs, times_of
from queue_tables.schemas import LOG
from queue_tables.table import TableLog

COLUMNS = (
    "topic",
    "topic_id",
    "partition",
    "offset",
    "key",
    "value",
    "key_format",
    "value_format",
    "headers",
    "timestamp",
    "ordered_at",
    "message_id",
    "deliver_at",
    "expires_at",
)
"""What a consumer receives."""
_FOOTERS = 512
_MOST_NEWS = 1_000
"""Commits kept for who follows the log; who only reads it never asks for them."""
_MOST_SOUGHT = 64
"""Row groups whose statistics one call looks at: on object storage each may cost a request."""


class LogReader:
    """Reads `log` of one root. Thread-safe.

    `columns` are those of the tables returned; decoded row groups are kept up to `cache_bytes`.
    """

    def __init__(
        self,
        root: QueueRoot,
        columns: Sequence[str] = COLUMNS,
        cache_bytes: int = 64 << 20,
    ) -> None:
        self._store = root.store
        self._columns = list(dict.fromkeys([*columns, "offset"]))
        self._lock = threading.RLock()
        self._pieces = Pieces(cache_bytes)
        self._footers: OrderedDict[str, pq.FileMetaData] = OrderedDict()
        self._table = TableLog(root.store, LOG.name)
        self._index = LogIndex()
        self._durable = Version(-1)
        self._news: deque[Commit] = deque(maxlen=_MOST_NEWS)
        self._open()

    @property
    def version(self) -> Version:
        """The version of `log` that reads go by."""
        return self._table.version

    def refresh(self) -> list[Commit]:
        """Take in what was committed since, durable.

        Returns the commits since the last call ([] after a clean-up), also those that a read came
        upon meanwhile.
        """
        with self._lock:
            self._catch_up()
            commits = list(self._news)
            self._news.clear()
            return commits

    def _catch_up(self) -> None:
        with self._lock:
            try:
                commits = self._table.refresh()
            except TailLost:
                self._news.clear()
                self._open()
                return
            for commit in commits:
                for removed in commit.removes:
                    self._index.remove(removed.path)
                for added in commit.adds:
                    self._index.add(added)
            self._news.extend(commits)
            if self._table.version > self._durable:
                self._table.make_durable()
                self._durable = self._table.version

    def marks(self) -> Mapping[str, int]:
        """Every mark (`queue_tables/marks.py`), as of the last refresh."""
        with self._lock:
            return dict(self._table.txns)

    def end_offset(self, topic_id: TopicId, partition: Partition) -> Offset:
        """The offset that the next record will get, as of the last refresh."""
        return Offset(self._table.txns.get(f"offset/{topic_id}/{partition}", 0))

    def first_offset(self, topic_id: TopicId, partition: Partition) -> Offset:
        """The lowest offset still in the log; the end offset if there is none."""
        with self._lock:
            first = self._index.first(PartitionKey(topic_id, partition), self._spans_of)
        return self.end_offset(topic_id, partition) if first is None else first

    def read_range(
        self,
        topic_id: TopicId,
        partition: Partition,
        from_offset: Offset,
        max_rows: int,
        max_bytes: int = 8 << 20,
    ) -> pa.Table:
        """Records from `from_offset` on, in order, without gaps; an empty table at the end.

        At most `max_rows`, and no more than `max_bytes` of keys and values, but one record at
        least. Raises `OffsetOutOfRange` (with `first_offset` and `end_offset`) for an offset
        below retention or beyond the end.
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
            part, taken = self._take(key, at, rows, size, bool(parts))
            if part.num_rows == 0:
                break
            parts.append(part)
            at, rows, size = at + part.num_rows, rows - part.num_rows, size - taken
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

        spans = self._index.spans(PartitionKey(topic_id, partition), self._spans_of, wanted)
        while True:
            with self._lock:
                span = next(spans, None)
            if span is None:
                return self.end_offset(topic_id, partition)
            with self._file(span.path) as file:
                times = file.read_row_group(span.row_group, [column, "offset"])
            times = times.slice(span.start, span.end - span.start)
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
        """The first stretch [from, to) behind `start` whose row groups may hold what is sought.

        `may_hold` gets the lowest and highest `offset` and `timestamp` of the partition's rows in a
        row group, by its statistics: what it refuses is in no stretch, and need not be decoded.
        Ends with the row group that makes it `max_rows`. Empty if there is none, at the end or
        where enough was looked at: call again from there. Raises as `read_range`.
        """
        key = PartitionKey(topic_id, partition)
        at, end = int(start), self.end_offset(topic_id, partition)
        begin: int | None = None
        for _ in range(_MOST_SOUGHT):
            if at >= end or (begin is not None and at >= begin + max_rows):
                break
            try:
                span = self._locate(key, at)
                holds = may_hold(self._bounds_of(span))
            except FileNotFoundError:
                # Rewritten by compaction: `read_range` looks for it anew.
                return Offset(at if begin is None else begin), Offset(at + 1)
            if holds and begin is None:
                begin = at
            if not holds and begin is not None:
                break
            at = span.last + 1
        return Offset(at if begin is None else begin), Offset(at)

    def _bounds_of(self, span: Span) -> dict[str, tuple[int, int]]:
        with self._file(span.path) as file:
            times = times_of(file.metadata.row_group(span.row_group))
        return {"offset": (int(span.first), int(span.last))} | times

    def spans(
        self, topic_id: TopicId, partition: Partition, start: Offset, end: Offset
    ) -> list[Span]:
        """Where the records [start, end) are, in the order of offsets, as of the last refresh.

        The first and the last span may reach beyond. Raises `OffsetOutOfRange` for an offset
        below retention.
        """
        key = PartitionKey(topic_id, partition)
        found: list[Span] = []
        at = int(start)
        while at < end:
            found.append(self._locate(key, at))
            at = found[-1].last + 1
        return found

    def parts(self, path: str) -> dict[PartitionKey, tuple[Offset, Offset]]:
        """The partitions that have records in a file: lowest and highest offset of each.

        Raises `FileNotFoundError` if the file was vacuumed.
        """
        found: dict[PartitionKey, tuple[Offset, Offset]] = {}
        for key, span in self._spans_of(path):
            first, last = found.get(key, (span.first, span.last))
            found[key] = min(first, span.first), max(last, span.last)
        return found

    def decoded_bytes(self, path: str) -> int:
        """About what the rows of a file are in memory, by its footer.

        Raises `FileNotFoundError` if the file was vacuumed.
        """
        with self._file(path) as file:
            footer = file.metadata
            return sum(footer.row_group(n).total_byte_size for n in range(footer.num_row_groups))

    def topic_ids(self) -> set[TopicId]:
        """Every incarnation of a topic that was ever ordered, as of the last refresh."""
        return {
            TopicId(app_id.split("/")[1])
            for app_id in self._table.txns
            if app_id.startswith("offset/")
        }

    def file(self, path: str) -> Add:
        """A file of the log, as of the last refresh. Raises `KeyError`."""
        return self._table.files[path]

    def files(self) -> list[Add]:
        """Every file of the log, as of the last refresh."""
        with self._lock:
            return list(self._table.files.values())

    # -- one piece --------------------------------------------------------------------------------

    def _take(
        self, key: PartitionKey, at: int, rows: int, size: int, has_some: bool
    ) -> tuple[pa.Table, int]:
        """Rows of one span from offset `at`, and their bytes."""
        try:
            span = self._locate(key, at)
            piece = self._pieces.get(span.path, span.row_group, self._decode)
        except FileNotFoundError:
            # Rewritten by compaction and vacuumed since: the newer version has it elsewhere.
            self._catch_up()
            try:
                span = self._locate(key, at)
                piece = self._pieces.get(span.path, span.row_group, self._decode)
            except FileNotFoundError as error:
                raise CorruptTable(
                    f"log file {error} is gone, and the log still names it",
                    hint="restore the file from a backup",
                ) from error
        mine = piece.slice(span.start, span.end - span.start)
        start = int(np.searchsorted(mine.column("offset").to_numpy(), at))
        mine = mine.slice(start, rows)
        sizes = np.cumsum(_lengths(mine, "key") + _lengths(mine, "value"))
        fitting = int(np.searchsorted(sizes, size, side="right"))
        if fitting == 0 and not has_some:
            fitting = 1
        mine = mine.slice(0, fitting)
        return mine, int(sizes[fitting - 1]) if fitting else 0

    def _locate(self, key: PartitionKey, offset: int) -> Span:
        with self._lock:
            span = self._index.find(key, offset, self._spans_of)
            if span is not None:
                return span
            first = self._index.first(key, self._spans_of)
        topic_id, partition = TopicId(key.topic_id), Partition(key.partition)
        if first is None or offset < first:
            raise self._out_of_range(topic_id, partition, offset)
        raise CorruptTable(
            f"offset {offset} of {key.topic_id}/{key.partition} is in no file of the log",
            hint="restore the log from a backup",
        )

    def _out_of_range(
        self, topic_id: TopicId, partition: Partition, offset: int
    ) -> OffsetOutOfRange:
        first = self.first_offset(topic_id, partition)
        end = self.end_offset(topic_id, partition)
        return OffsetOutOfRange(
            f"offset {offset} of {topic_id}/{partition} is outside {first} to {end}",
            hint="seek to an offset that exists",
            first_offset=first,
            end_offset=end,
        )

    def _empty(self) -> pa.Table:
        return LOG.file_arrow.empty_table().select(self._columns)

    # -- files ------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._table.open()
        self._table.make_durable()
        self._index = LogIndex()
        for file in self._table.files.values():
            self._index.add(file)

    @contextmanager
    def _file(self, path: str) -> Iterator[pq.ParquetFile]:
        source = self._store.open(f"{LOG.name}/{path}")
        with self._lock:
            footer = self._footers.get(path)
        with (
            damage_named(f"{LOG.name}/{path}"),
            pq.ParquetFile(
                source,
                metadata=footer,
                memory_map=isinstance(source, str),
                page_checksum_verification=True,
            ) as file,
        ):
            with self._lock:
                self._footers[path] = file.metadata
                self._footers.move_to_end(path)
                if len(self._footers) > _FOOTERS:
                    self._footers.popitem(last=False)
            yield file

    def _decode(self, path: str, row_group: int) -> pa.Table:
        with self._file(path) as file:
            rows = file.read_row_group(row_group, self._columns).combine_chunks()
            return complete(rows, file.metadata.row_group(row_group).num_rows)

    def _spans_of(self, path: str) -> Iterator[tuple[PartitionKey, Span]]:
        with self._file(path) as file:
            for row_group in range(file.metadata.num_row_groups):
                whole = only_key(file.metadata.row_group(row_group))
                if whole is not None:
                    key, first, last, count = whole
                    yield key, Span(first, last, path, row_group, 0, count)
                else:
                    rows = file.read_row_group(row_group, INDEX_COLUMNS)
                    yield from runs(rows, path, row_group)


def _lengths(rows: pa.Table, column: str) -> npt.NDArray[np.int64]:
    if column not in rows.column_names:
        return np.zeros(rows.num_rows, dtype=np.int64)
    lengths = pc.fill_null(pc.binary_length(rows.column(column)), 0)
    return np.asarray(lengths.to_numpy()).astype(np.int64)
