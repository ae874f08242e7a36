"""Writes rows of files that another engine wrote as the queue itself would have written them."""

from __future__ import annotations

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
    Other tables keep the rows as they are.
    """
    if not foreign:
        return []
    if declared.name == LOG.name:
        return _log_files(root, log, foreign, stay)
    return [
        write_data_file(
            root.store,
            log.path,
            read_data_file(root.store, log.path, add.path, vector=add.deletion_vector),
            {name: add.partition_values[name] or "" for name in declared.partition_by},
            declared,
        )
        for add in foreign
    ]


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
