"""What the footer of a log file, or its index columns, say of a row group. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakequeue.records import Offset
from lakequeue.wire import to_micros
from queue_tables.log_index import PartitionKey, Span

INDEX_COLUMNS = ["topic_id", "partition", "offset"]


def only_key(group: pq.RowGroupMetaData) -> tuple[PartitionKey, Offset, Offset, int] | None:
    """(key, first, last, rows) of a row group that holds one partition; else `None`."""
    bounds = {}
    for i in range(group.num_columns):
        column = group.column(i)
        if column.path_in_schema in INDEX_COLUMNS:
            stats = column.statistics
            if stats is None or not stats.has_min_max:
                return None
            bounds[column.path_in_schema] = (stats.min, stats.max)
    topic_id, partition = bounds["topic_id"], bounds["partition"]
    if topic_id[0] != topic_id[1] or partition[0] != partition[1]:
        return None
    first, last = bounds["offset"]
    return PartitionKey(topic_id[0], partition[0]), first, last, group.num_rows


def runs(rows: pa.Table, path: str, row_group: int) -> Iterator[tuple[PartitionKey, Span]]:
    """The spans of a row group in which several partitions follow each other."""
    encoded = rows.column("topic_id").combine_chunks().dictionary_encode()
    topics = encoded.indices.to_numpy()
    partitions = rows.column("partition").to_numpy()
    offsets = rows.column("offset").to_numpy()
    changes = (topics[1:] != topics[:-1]) | (partitions[1:] != partitions[:-1])
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), len(offsets)]
    for start, end in pairwise(edges):
        key = PartitionKey(encoded.dictionary[int(topics[start])].as_py(), int(partitions[start]))
        first, last = Offset(int(offsets[start])), Offset(int(offsets[end - 1]))
        yield key, Span(first, last, path, row_group, start, end)


def times_of(group: pq.RowGroupMetaData) -> dict[str, tuple[int, int]]:
    """Lowest and highest `timestamp`, in microseconds; {} if the file does not say."""
    for i in range(group.num_columns):
        column = group.column(i)
        if column.path_in_schema == "timestamp":
            stats = column.statistics
            if stats is not None and stats.has_min_max:
                with suppress(OverflowError):  # beyond what a datetime can hold: not known
                    return {"timestamp": (to_micros(stats.min), to_micros(stats.max))}
    return {}
