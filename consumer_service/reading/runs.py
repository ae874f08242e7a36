"""Rows of `log` by partition: runs whose offsets follow each other, and what leaves. Pure."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakequeue.records import Partition, TopicId, TopicPartition
from queue_tables.log.record_bytes import bytes_of, bytes_up_to

READ_AHEAD_ROWS = 20_000
READ_AHEAD_BYTES = 8 << 20
"""What one read from the files brings: several polls' worth, kept beside the cursor."""


class Run(NamedTuple):
    """Rows of a table that are of one partition and follow each other."""

    where: TopicPartition
    start: int
    """The first of them in the table."""
    first: int
    """Its offset."""
    length: int


def runs_of(rows: pa.Table) -> list[Run]:
    """The runs in a table sorted by (topic, partition, offset).

    Without those partitions whose rows do not follow each other: positions are counted in a window.
    """
    if rows.num_rows == 0:
        return []
    topics = rows["topic_id"].combine_chunks().dictionary_encode()
    numbers, partitions = topics.indices.to_numpy(), rows["partition"].to_numpy()
    offsets, names = rows["offset"].to_numpy(), topics.dictionary.to_pylist()
    borders = np.flatnonzero((np.diff(numbers) != 0) | (np.diff(partitions) != 0)) + 1
    # How many times, up to each row, one did not follow the one before.
    breaks = np.concatenate([[0], np.cumsum(np.diff(offsets) != 1)])
    return [
        Run(
            TopicPartition(TopicId(names[numbers[start]]), Partition(int(partitions[start]))),
            start,
            int(offsets[start]),
            end - start,
        )
        for start, end in pairwise([0, *borders.tolist(), rows.num_rows])
        if breaks[end - 1] == breaks[start]
    ]


def prefix_within(rows: pa.Table, max_rows: int, max_bytes: int) -> pa.Table:
    """The first rows of `rows` within both bounds, at least one of them."""
    rows = rows.slice(0, max_rows)
    if rows.num_rows <= 1 or bytes_of(rows) <= max_bytes:
        return rows
    fits = int(np.searchsorted(bytes_up_to(rows), max_bytes, side="right"))
    return rows.slice(0, max(1, fits))


def not_expired(rows: pa.Table, now: int) -> pa.Table | None:
    """The rows that may still be delivered at `now`, µs; `rows` itself if all may, None if none."""
    expires_at = rows["expires_at"]
    if expires_at.null_count == len(expires_at):
        return rows
    alive = pc.fill_null(pc.greater(expires_at.cast(pa.int64()), now), True)
    kept = rows.filter(alive)
    if kept.num_rows == rows.num_rows:
        return rows
    return kept if kept.num_rows else None
