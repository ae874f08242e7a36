"""Writes rows of files that another engine wrote as the queue itself would have written them."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from queue_tables.delta.actions import Add
from queue_tables.delta.columns import Table
from queue_tables.delta.table import TableLog
from queue_tables.files.parquet import read_data_file, write_data_file
from queue_tables.log.writer import write_log_file
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import offset_mark
from queue_tables.schema.schemas import LOG

_KEY = ["topic_id", "partition", "offset"]
_Keys = dict[tuple[str, int], set[int]]


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
        return _log_files(root, log, foreign, stay)
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


def _log_files(
    root: QueueRoot, log: TableLog, foreign: Sequence[Add], stay: Iterable[Add]
) -> list[Add]:
    known: _Keys = defaultdict(set)
    for add in stay:
        rows = read_data_file(root.store, log.path, add.path, _KEY, add.deletion_vector)
        _take_in(known, rows)
    written = []
    for add in foreign:
        found = read_data_file(root.store, log.path, add.path, vector=add.deletion_vector)
        rows = _own_rows(found, known, log.txns)
        if rows.num_rows:
            order = [(name, "ascending") for name in ("topic", "partition", "offset")]
            hour = add.partition_values["hour"] or ""
            written.append(write_log_file(root.store, rows.sort_by(order), hour))
    return written


def _own_rows(rows: pa.Table, known: _Keys, marks: Mapping[str, int]) -> pa.Table:
    """Those that the order leader has numbered and that are not known yet; they are from now on."""
    keep = np.zeros(rows.num_rows, dtype=bool)
    for at, (topic_id, partition, offset) in enumerate(_keys(rows)):
        if None in (topic_id, partition, offset):
            continue
        there = known[topic_id, partition]
        end = marks.get(offset_mark(topic_id, partition), 0)
        keep[at] = 0 <= offset < end and offset not in there
        if keep[at]:
            there.add(offset)
    return rows.filter(pa.array(keep))


def _take_in(known: _Keys, rows: pa.Table) -> None:
    for topic_id, partition, offset in _keys(rows):
        known[topic_id, partition].add(offset)


def _keys(rows: pa.Table) -> Iterable[tuple[str, int, int]]:
    return zip(*(rows.column(name).to_pylist() for name in _KEY), strict=True)
