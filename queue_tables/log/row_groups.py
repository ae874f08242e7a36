"""What the footer of a log file, or its index columns, say of a row group. No I/O.

The rows of a group are counted in its *normal order*: as they stand in the file if the records of
each partition are together and their offsets rise, as the queue writes them; else sorted by topic
id, partition and offset, and each record once. So a position means the same to whoever planned a
read by the index columns and to whoever decodes all of the group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakequeue.errors import CorruptTable
from lakequeue.records import Offset
from lakequeue.times import to_micros
from queue_tables.log.contested import REPAIR, differing, twice
from queue_tables.log.index import PartitionKey, Span

INDEX_COLUMNS = ["topic_id", "partition", "offset"]
_FEW = 256
_OWN = re.compile(
    r"(?:.*[/-])?part-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.[a-z0-9]+\.parquet"
)


def is_own(path: str) -> bool:
    """Whether the queue wrote a log file, by its name: Spark and delta-rs number their parts.

    Its rows are in order, and of no record another copy is anywhere in the log.
    """
    return _OWN.fullmatch(path) is not None


def only_key(group: pq.RowGroupMetaData) -> tuple[PartitionKey, Offset, Offset, int] | None:
    """(key, first, last, rows) of a row group that holds one partition without gaps; else `None`.

    `None` also if the footer does not say. Only for the queue's own files: another engine may cut
    its statistics off, or have the rows in any order.
    """
    bounds = {}
    for i in range(group.num_columns):
        column = group.column(i)
        if column.path_in_schema in INDEX_COLUMNS:
            stats = column.statistics
            if stats is None or not stats.has_min_max:
                return None
            bounds[column.path_in_schema] = (stats.min, stats.max)
    if len(bounds) < len(INDEX_COLUMNS):
        return None
    topic_id, partition = bounds["topic_id"], bounds["partition"]
    if topic_id[0] != topic_id[1] or partition[0] != partition[1]:
        return None
    first, last = bounds["offset"]
    if last - first + 1 != group.num_rows:
        return None
    return PartitionKey(topic_id[0], partition[0]), first, last, group.num_rows


def in_order(rows: pa.Table) -> bool:
    """Whether the rows of a group are in their normal order as they are."""
    if rows.num_rows < 2:
        return True
    changes = _changes(rows)
    rises = np.diff(rows.column("offset").to_numpy()) > 0
    if not bool(np.all(changes | rises)):
        return False
    starts = [0, *(np.flatnonzero(changes) + 1).tolist()]
    begun = rows.select(["topic_id", "partition"]).take(pa.array(starts))
    if len(starts) <= _FEW:  # then a set is quicker
        columns = (begun.column(name).to_pylist() for name in begun.column_names)
        return len(set(zip(*columns, strict=True))) == len(starts)
    keys: int = begun.group_by(["topic_id", "partition"]).aggregate([]).num_rows
    return keys == len(starts)


def normal(rows: pa.Table, path: str) -> pa.Table:
    """The rows of a group that is not in order, in its normal order.

    Raises `CorruptTable` if two rows claim to be the same record, and differ in what was read.
    """
    by = [(name, "ascending") for name in INDEX_COLUMNS]
    rows = rows.combine_chunks().take(pc.sort_indices(rows.select(INDEX_COLUMNS), by))
    again = ~_changes(rows) & (np.diff(rows.column("offset").to_numpy()) == 0)
    if not bool(again.any()):
        return rows
    copies = np.flatnonzero(again) + 1
    kept = rows.take(pa.array(copies - 1))
    found = differing(kept, rows.take(pa.array(copies)))
    if found is not None:
        one = kept.slice(found, 1).to_pylist()[0]
        raise twice(PartitionKey(one["topic_id"], one["partition"]), one["offset"], path, path)
    return rows.filter(pa.array(np.concatenate([[True], ~again])))


def checked(rows: pa.Table, path: str) -> pa.Table:
    """Index columns of a file. Raises `CorruptTable` for rows that belong to no partition."""
    for name in INDEX_COLUMNS:
        if rows.column(name).null_count:
            raise CorruptTable(
                f"log file {path} has {rows.column(name).null_count} rows without {name}",
                hint=f"another engine put them there: {REPAIR}",
            )
    return rows


def runs(rows: pa.Table, path: str, row_group: int) -> Iterator[tuple[PartitionKey, Span]]:
    """The spans of a row group in its normal order: one partition each, without a gap."""
    if rows.num_rows == 0:
        return
    encoded = rows.column("topic_id").combine_chunks().dictionary_encode()
    topics = encoded.indices.to_numpy()
    partitions = rows.column("partition").to_numpy()
    offsets = rows.column("offset").to_numpy()
    changes = (topics[1:] != topics[:-1]) | (partitions[1:] != partitions[:-1])
    changes |= np.diff(offsets) != 1
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), len(offsets)]
    for start, end in pairwise(edges):
        key = PartitionKey(encoded.dictionary[int(topics[start])].as_py(), int(partitions[start]))
        first, last = Offset(int(offsets[start])), Offset(int(offsets[end - 1]))
        yield key, Span(first, last, path, row_group, start, end)


def _changes(rows: pa.Table) -> npt.NDArray[np.bool_]:
    """Where a row is of another partition than the one before."""
    topics = rows.column("topic_id").combine_chunks()
    partitions = rows.column("partition").to_numpy()
    others = pc.not_equal(topics[1:], topics[:-1]).to_numpy(zero_copy_only=False)
    changed: npt.NDArray[np.bool_] = others | (partitions[1:] != partitions[:-1])
    return changed


def times_of(group: pq.RowGroupMetaData) -> dict[str, tuple[int, int]]:
    """Lowest and highest `timestamp`, in microseconds; {} if the file does not say.

    Only for the queue's own files: others have other units.
    """
    for i in range(group.num_columns):
        column = group.column(i)
        if column.path_in_schema == "timestamp":
            stats = column.statistics
            if stats is not None and stats.has_min_max:
                with suppress(OverflowError):  # beyond what a datetime can hold: not known
                    return {"timestamp": (to_micros(stats.min), to_micros(stats.max))}
    return {}
