"""Writes rows of files that another engine wrote as the queue itself would have written them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import pyarrow as pa

from queue_tables.delta.actions import Add
from queue_tables.delta.columns import Table
from queue_tables.delta.table import TableLog
from queue_tables.files.parquet import read_data_file, write_data_file
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import LOG
from queue_tables.upkeep.normal_log_files import normal_log_files


def normal_files(
    root: QueueRoot,
    log: TableLog,
    foreign: Sequence[Add],
    stay: Iterable[Add],
    declared: Table,
) -> list[Add]:
    """Write the rows of `foreign` anew; the files, durable, that no commit names yet.

    Of `log`: sorted, each offset once, none that stands in a file of `stay` or was never given.
    Other tables keep the rows as they are, but for those that stand in a file of `stay` as well.
    """
    if not foreign:
        return []
    if declared.name == LOG.name:
        return normal_log_files(root, log, foreign, stay)
    there = {row for add in stay for row in _digests(_rows_of(root, log, add))}
    written = []
    for add in foreign:
        rows = _rows_of(root, log, add)
        rows = rows.filter(pa.array([row not in there for row in _digests(rows)], pa.bool_()))
        if rows.num_rows:
            hour = {name: add.partition_values[name] or "" for name in declared.partition_by}
            written.append(write_data_file(root.store, log.path, rows, hour, declared))
    return written


def _rows_of(root: QueueRoot, log: TableLog, add: Add) -> pa.Table:
    return read_data_file(root.store, log.path, add.path, vector=add.deletion_vector)


def _digests(rows: pa.Table) -> list[bytes]:
    """One a row, of all of its columns."""
    # Raw: text that is no text, and times beyond what a datetime holds, are rows as well.
    raw = rows.cast(pa.schema([field.with_type(_raw(field.type)) for field in rows.schema]))
    return [hashlib.blake2b(repr(row).encode(), digest_size=16).digest() for row in raw.to_pylist()]


def _raw(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_raw(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_raw(field.type)) for field in kind])
    if pa.types.is_timestamp(kind):
        return pa.int64()
    return pa.binary() if pa.types.is_string(kind) else kind
