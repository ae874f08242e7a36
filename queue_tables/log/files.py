"""The data files of `log`, row group by row group, as whatever engine has written them.

Files of the queue are known by their names and read by their footers. Of others nothing is taken
for granted: their index columns are read, and rows that are not in order are put in order
(`row_groups`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakequeue.errors import CorruptTable
from queue_tables.delta.actions import Add
from queue_tables.delta.store import Store
from queue_tables.files.deletion_vectors import Rows, deleted_rows, left_of
from queue_tables.files.parquet import complete, damage_named, file_stats, read_data_file, source_of
from queue_tables.files.physical import OPENED_WITH, as_declared, schema_of
from queue_tables.files.stats import FileStats
from queue_tables.log.contested import REPAIR
from queue_tables.log.index import PartitionKey, Span
from queue_tables.log.row_groups import (
    INDEX_COLUMNS,
    checked,
    in_order,
    is_own,
    normal,
    only_key,
    runs,
    times_of,
)
from queue_tables.schema.schemas import LOG

Decode = Callable[[str, int], pa.Table]
"""(path, row group) → its rows."""
Held = Callable[[str, int, Decode], pa.Table]
"""The same, decoded unless they are held already."""
_FOOTERS = 512
_MOST_DECODED = 4
"""Row groups of a file that is decoded to learn where its records are."""
_MOST_SPANS = 200_000
"""Of one file: a record each, when another engine has strewn them over its row groups."""


class LogFiles:
    """Reads files of `log`. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._footers: OrderedDict[str, pq.FileMetaData] = OrderedDict()
        self._mixed_up: dict[str, frozenset[int]] = {}
        """Path → row groups that are to be put in order; of files that have any."""
        self._vectors: dict[str, Mapping[str, Any]] = {}
        self._deleted: dict[str, Rows] = {}
        self._completed: dict[str, Add] = {}

    def add(self, file: Add) -> None:
        """The file has come into the log."""
        if file.deletion_vector is not None:
            self._vectors[file.path] = file.deletion_vector

    def forget(self, path: str) -> None:
        """The file has left the log."""
        with self._lock:
            self._footers.pop(path, None)
            self._mixed_up.pop(path, None)
            self._vectors.pop(path, None)
            self._deleted.pop(path, None)
            self._completed.pop(path, None)

    def is_trusted(self, path: str) -> bool:
        """Whether the file is as the queue wrote it."""
        return is_own(path) and path not in self._vectors

    def vector(self, path: str) -> Mapping[str, Any] | None:
        """The file's deletion vector."""
        return self._vectors.get(path)

    def with_stats(self, file: Add) -> Add:
        """The same, with the declared statistics: of what another engine wrote they may be gone.

        A file that cannot be read has those that it came with, if any.
        """
        if file.stats and (is_own(file.path) or _has_stats(file)):
            return file
        with self._lock:
            known = self._completed.get(file.path)
        if known is None:
            vector = file.deletion_vector
            try:
                rows = read_data_file(self._store, LOG.name, file.path, LOG.stats, vector)
            except (CorruptTable, FileNotFoundError):
                return file
            known = replace(file, stats=file_stats(rows, LOG.stats))
            with self._lock:
                self._completed[file.path] = known
        return known

    def _deleted_in(self, path: str) -> Rows | None:
        vector = self._vectors.get(path)
        if vector is None:
            return None
        with self._lock:
            known = self._deleted.get(path)
        if known is None:
            known = deleted_rows(self._store, LOG.name, vector)
            with self._lock:
                self._deleted[path] = known
        return known

    def mixed_up(self, path: str, row_group: int) -> bool:
        """Whether a row group is to be put in order, as far as `spans` has found out."""
        return row_group in self._mixed_up.get(path, ())

    def spans(
        self, path: str, held: Held | None = None, columns: Sequence[str] = ()
    ) -> list[tuple[PartitionKey, Span]]:
        """Where the records of a file are.

        `held` keeps row groups, with these columns, for whoever reads their records next: with it,
        a small file of the queue's own is decoded once. Raises `FileNotFoundError` if the file was
        vacuumed; `CorruptTable` if it is damaged, or holds rows of no partition, or its records are
        all over its row groups.
        """
        found: list[tuple[PartitionKey, Span]] = []
        mixed_up: set[int] = set()
        trusted, deleted = self.is_trusted(path), self._deleted_in(path)
        with self.open(path) as file:
            if not trusted or file.metadata.num_row_groups > _MOST_DECODED:
                held = None
            for row_group in range(file.metadata.num_row_groups):
                whole = only_key(file.metadata.row_group(row_group)) if trusted else None
                if whole is not None:
                    key, first, last, count = whole
                    found.append((key, Span(first, last, path, row_group, 0, count)))
                    continue
                if held is None:
                    rows = read_group(file, path, row_group, INDEX_COLUMNS, deleted)
                else:
                    decode = partial(rows_of_group, file, columns=columns, mixed_up=False)
                    rows = held(path, row_group, decode).select(INDEX_COLUMNS)
                rows = checked(rows, path)
                if not in_order(rows):
                    mixed_up.add(row_group)
                    rows = normal(rows, path)
                found += runs(rows, path, row_group)
                if len(found) > _MOST_SPANS:
                    raise CorruptTable(
                        f"the records of log file {path} are strewn over its row groups:"
                        f" {len(found)} ranges of offsets, {_MOST_SPANS} at most",
                        hint=f"another engine has rewritten it: {REPAIR}",
                    )
        if mixed_up:
            with self._lock:
                self._mixed_up[path] = frozenset(mixed_up)
        return found

    def rows(self, path: str, row_group: int, columns: Sequence[str]) -> pa.Table:
        """The rows of a row group in normal order; `columns` has `offset`. Raises as `spans`."""
        mixed_up, deleted = self.mixed_up(path, row_group), self._deleted_in(path)
        with self.open(path) as file:
            return rows_of_group(file, path, row_group, columns, deleted, mixed_up=mixed_up)

    def times(self, path: str, row_group: int) -> dict[str, tuple[int, int]]:
        """Lowest and highest `timestamp` of a row group, µs; {} if that is not known."""
        if not self.is_trusted(path):
            return {}
        with self.open(path) as file:
            return times_of(file.metadata.row_group(row_group))

    def decoded_bytes(self, path: str) -> int:
        """About what the rows of a file are in memory, by its footer."""
        with self.open(path) as file:
            footer = file.metadata
            return sum(footer.row_group(n).total_byte_size for n in range(footer.num_row_groups))

    @contextmanager
    def open(self, path: str) -> Iterator[pq.ParquetFile]:
        """The file. Raises `FileNotFoundError`, `CorruptTable`."""
        source, _ = source_of(self._store, f"{LOG.name}/{path}")
        with self._lock:
            footer = self._footers.get(path)
        with (
            damage_named(f"{LOG.name}/{path}"),
            pq.ParquetFile(
                source, metadata=footer, memory_map=isinstance(source, str), **OPENED_WITH
            ) as file,
        ):
            with self._lock:
                self._footers[path] = file.metadata
                self._footers.move_to_end(path)
                if len(self._footers) > _FOOTERS:
                    self._footers.popitem(last=False)
            yield file


def rows_of_group(
    file: pq.ParquetFile,
    path: str,
    row_group: int,
    columns: Sequence[str],
    deleted: Rows | None = None,
    *,
    mixed_up: bool,
) -> pa.Table:
    """The rows of a row group of a log file in normal order; `columns` has `offset`.

    `deleted` are positions in the file. `mixed_up`: the rows are known not to be in order.
    """
    if not mixed_up:
        rows = read_group(file, path, row_group, columns, deleted)
        # An own file of one partition was indexed by its footer, which does not tell the order.
        if not _falls(rows) or only_key(file.metadata.row_group(row_group)) is None:
            return rows
    wanted = list(dict.fromkeys([*columns, *INDEX_COLUMNS]))
    return normal(read_group(file, path, row_group, wanted, deleted), path).select(list(columns))


def read_group(
    file: pq.ParquetFile,
    path: str,
    row_group: int,
    columns: Sequence[str],
    deleted: Rows | None = None,
) -> pa.Table:
    """The rows of a row group as they stand in the file, with the columns as declared."""
    rows = file.read_row_group(row_group, list(columns), use_threads=False)
    complete(rows, file.metadata.row_group(row_group).num_rows)
    if deleted is not None:
        before = sum(file.metadata.row_group(n).num_rows for n in range(row_group))
        rows = left_of(rows, deleted - before)
    return as_declared(rows, schema_of(LOG, columns), f"{LOG.name}/{path}").combine_chunks()


def _has_stats(file: Add) -> bool:
    return FileStats(file.stats).has_bounds(schema_of(LOG, LOG.stats))


def _falls(rows: pa.Table) -> bool:
    """Whether an offset is not higher than the one before."""
    offsets = rows.column("offset").to_numpy()
    return bool((offsets[1:] <= offsets[:-1]).any())
