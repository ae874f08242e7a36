"""Writes rows of files that another engine wrote as the queue itself would have written them.

Little is held at once: 16 bytes for each row that stays in the table, and of the rows themselves
`_CHUNK_BYTES`, or a row group.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from queue_tables.delta.actions import Add
from queue_tables.delta.columns import Table
from queue_tables.delta.table import TableLog
from queue_tables.files.deletion_vectors import deleted_rows
from queue_tables.files.parquet import DataFile, write_data_file
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import LOG
from queue_tables.upkeep.normal_log_files import normal_log_files

Digests = npt.NDArray[np.bytes_]
_DIGEST = "S16"
_CHUNK_BYTES = 64 << 20
"""Decoded bytes of a file that is written."""


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
    there = _digests_of(root, log, stay)
    written = []
    for add in foreign:
        hour = {name: add.partition_values[name] or "" for name in declared.partition_by}
        for rows in _pieces(root, log, add):
            rows = rows.filter(pa.array(~np.isin(_digests(rows), there)))
            if rows.num_rows:
                written.append(write_data_file(root.store, log.path, rows, hour, declared))
    return written


def _digests_of(root: QueueRoot, log: TableLog, adds: Iterable[Add]) -> Digests:
    parts = [_digests(rows) for add in adds for rows in _pieces(root, log, add)]
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, _DIGEST)


def _pieces(root: QueueRoot, log: TableLog, add: Add) -> Iterator[pa.Table]:
    """The rows of a file that are not deleted, in order: row groups of about `_CHUNK_BYTES`
    together, one after the other."""
    vector = add.deletion_vector
    gone = None if vector is None else deleted_rows(root.store, log.path, vector)
    held: list[pa.Table] = []
    with DataFile(root.store, log.path, add.path) as file:
        for group, begin in enumerate(file.begins[:-1]):
            rows = file.rows(group)
            if gone is not None:
                keep = ~np.isin(np.arange(begin, begin + rows.num_rows), gone)
                rows = rows.filter(pa.array(keep))
            held.append(rows)
            if sum(part.nbytes for part in held) >= _CHUNK_BYTES:
                yield pa.concat_tables(held)
                held = []
    if held:
        yield pa.concat_tables(held)


def _digests(rows: pa.Table) -> Digests:
    """One a row, of all of its columns."""
    # Raw: text that is no text, and times beyond what a datetime holds, are rows as well.
    raw = rows.cast(pa.schema([field.with_type(_raw(field.type)) for field in rows.schema]))
    found = [hashlib.blake2b(repr(row).encode(), digest_size=16) for row in raw.to_pylist()]
    return np.array([one.digest() for one in found], _DIGEST)


def _raw(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_raw(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_raw(field.type)) for field in kind])
    if pa.types.is_timestamp(kind):
        return pa.int64()
    return pa.binary() if pa.types.is_string(kind) else kind
