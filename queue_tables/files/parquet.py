"""Data files: Arrow in, one durable Parquet file and its `Add` out; and back."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakequeue.errors import CorruptTable
from queue_tables.delta.actions import Add
from queue_tables.delta.columns import Table
from queue_tables.delta.store import Store
from queue_tables.files.deletion_vectors import deleted_rows, left_of
from queue_tables.files.physical import OPENED_WITH, as_declared, declared_at, schema_of

_SMALL_BYTES = 1 << 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Rendered(NamedTuple):
    """A data file that is not stored yet."""

    data: pa.Buffer
    add: Add


def rendered(
    table: pa.Table, partition: Mapping[str, str], declared: Table, path: str | None = None
) -> Rendered:
    """Make a file of `table` (columns of the declared file, in any order), in memory.

    Rows keep their order. Each page has a checksum: without one a bit that flips on the disk is
    read as another value. `path`: where in the table, if not under a new name.
    """
    # A shard's files hold a few dozen rows and are read once, soon: without dictionaries and with
    # the quick codec they are read in 0.7 of the time.
    compression = "snappy" if declared.sharded else "zstd"
    schema = declared.file_arrow
    rows = table.select(schema.names)
    if not rows.schema.equals(schema):
        rows = rows.cast(schema)
    sink = pa.BufferOutputStream()
    pq.write_table(
        rows,
        sink,
        compression=compression,
        compression_level=1 if compression == "zstd" else None,
        use_dictionary=False
        if declared.sharded
        else [n for n in rows.column_names if n not in {"key", "value"}],
        write_statistics=list(declared.stats),
        store_schema=False,
        write_page_checksum=True,
    )
    data = sink.getvalue()
    folder = "".join(f"{name}={quote(partition[name])}/" for name in declared.partition_by)
    add = Add(
        path=path or f"{folder}part-{uuid.uuid4()}.{compression}.parquet",
        size=data.size,
        partition_values={name: partition[name] for name in declared.partition_by},
        modification_time=time.time_ns() // 1_000_000,
        data_change=True,
        stats=file_stats(rows, declared.stats),
    )
    return Rendered(data, add)


def write_data_file(
    store: Store,
    table_path: str,
    table: pa.Table,
    partition: Mapping[str, str],
    declared: Table,
    path: str | None = None,
) -> Add:
    """Write `table` as one durable file, as `rendered` makes it.

    Nothing refers to the file until the returned `Add` is committed.
    """
    file = rendered(table, partition, declared, path)
    store.put(f"{table_path}/{file.add.path}", file.data)
    return file.add


def read_data_file(
    store: Store,
    table_path: str,
    add_path: str,
    columns: Sequence[str] | None = None,
    vector: Mapping[str, Any] | None = None,
) -> pa.Table:
    """Read a data file in row order, without its partition columns, as the table is declared.

    Raises `FileNotFoundError` if it is gone (vacuumed), `CorruptTable` if it is damaged, or holds
    what the declared columns cannot (another engine wrote it). `vector`: that of the file's `Add`.
    """
    path = f"{table_path}/{add_path}"
    declared = declared_at(table_path)
    schema = None if declared is None else schema_of(declared, columns)
    if schema is not None:
        columns = schema.names
    source, small = source_of(store, path)
    with (
        damage_named(path),
        pq.ParquetFile(
            source,
            memory_map=isinstance(source, str),
            pre_buffer=not small,
            **OPENED_WITH,
        ) as file,
    ):
        rows = file.read(columns=None if columns is None else list(columns), use_threads=not small)
        rows = complete(rows, file.metadata.num_rows)
        if vector is not None:
            rows = left_of(rows, deleted_rows(store, table_path, vector))
        return rows if schema is None else as_declared(rows, schema, path)


def source_of(store: Store, path: str) -> tuple[str | pa.BufferReader, bool]:
    """What `pyarrow.parquet` reads of a file (relative to the root), and whether it is small.

    A small file is read whole: mapping it costs more than half of a millisecond, and a batch reads
    dozens of them. Threads and read-ahead pay for large files only. Raises `FileNotFoundError`.
    """
    if store.local_path is None:
        source = store.open(path)  # whole, by one request
        return source, isinstance(source, str) or source.size() <= _SMALL_BYTES
    small = store.size(path) <= _SMALL_BYTES
    return pa.BufferReader(store.get(path)) if small else store.open(path), small


class DataFile:
    """A data file that is read a row group at a time, as the table is declared."""

    def __init__(self, store: Store, table_path: str, add_path: str) -> None:
        """Raises as `read_data_file` does, and so do all calls."""
        self._path = f"{table_path}/{add_path}"
        self._declared = declared_at(table_path)
        source = store.open(self._path)
        with damage_named(self._path):
            self._file = pq.ParquetFile(
                source, memory_map=isinstance(source, str), pre_buffer=False, **OPENED_WITH
            )
        groups = [
            self._file.metadata.row_group(i) for i in range(self._file.metadata.num_row_groups)
        ]
        self.begins = [0, *accumulate(group.num_rows for group in groups)]
        """Where each row group begins in the file, and the end."""
        self.row_bytes = sum(g.total_byte_size for g in groups) // max(1, self.begins[-1]) + 1
        """Decoded bytes of a row, about."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def rows(self, row_group: int, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows of a row group."""
        schema = None if self._declared is None else schema_of(self._declared, columns)
        names = columns if schema is None else schema.names
        with damage_named(self._path):
            rows = self._file.read_row_group(
                row_group, None if names is None else list(names), use_threads=False
            )
            rows = complete(rows, self.begins[row_group + 1] - self.begins[row_group])
            return rows if schema is None else as_declared(rows, schema, self._path)


def complete(rows: pa.Table, count: int) -> pa.Table:
    """The rows, if they are as many as the footer says: the headers of pages have no checksum."""
    if rows.num_rows != count:
        raise pa.ArrowInvalid(f"{rows.num_rows} rows, and {count} by its footer")
    return rows


@contextmanager
def damage_named(path: str) -> Iterator[None]:
    """What Arrow says of a damaged file (relative to the root) as `CorruptTable`."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as e:
        # A ValueError: Arrow makes text of names in a footer, whatever their bytes are.
        if isinstance(e, FileNotFoundError):
            raise
        raise CorruptTable(
            f"data file {path} cannot be read: {e}", hint="restore the file from a backup"
        ) from e


def file_stats(rows: pa.Table, columns: Sequence[str]) -> str:
    """The statistics JSON of a file: row count, and for `columns` minimum, maximum, nulls."""
    stats: dict[str, Any] = {"numRecords": rows.num_rows}
    if columns:
        lowest: dict[str, Any] = {}
        highest: dict[str, Any] = {}
        nulls: dict[str, int] = {}
        for name in columns:
            column = rows.column(name)
            nulls[name] = column.null_count
            if column.null_count < len(column):
                bounds = pc.min_max(column)
                for said, bound, up in ((lowest, "min", False), (highest, "max", True)):
                    # A bound that cannot be said is left out: then it is not known.
                    with suppress(OverflowError, UnicodeDecodeError):
                        said[name] = _bound(bounds[bound], up=up)
        stats |= {"minValues": lowest, "maxValues": highest, "nullCount": nulls}
    return orjson.dumps(stats).decode()


def _bound(value: pa.Scalar, *, up: bool) -> Any:
    if not pa.types.is_timestamp(value.type):
        return value.as_py()
    # Delta keeps milliseconds: the minimum is rounded down and the maximum up, never inwards.
    millis = value.value / 1_000
    at = _EPOCH + timedelta(milliseconds=math.ceil(millis) if up else math.floor(millis))
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
