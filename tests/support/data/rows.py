"""Builders of rows for the queue's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from queue_tables.delta.columns import Table
from queue_tables.schema.schemas import INBOX, JOURNAL, LOG


def rows_of(declared: Table, columns: Mapping[str, Any], without: Sequence[str]) -> pa.Table:
    """An Arrow table of the declared columns, those not given all null, less `without`."""
    count = len(next(iter(columns.values())))
    arrays = {
        f.name: _array(columns.get(f.name, [None] * count), f.type)
        for f in declared.arrow
        if f.name not in without
    }
    return pa.table(arrays)


def _array(values: Any, of: pa.DataType) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, of)


def raw_texts(values: Sequence[bytes | None]) -> pa.Array:
    """A column of texts with just these bytes, UTF-8 or not."""
    return pa.array(values, pa.binary()).view(pa.string())


def raw_headers(rows: Sequence[Sequence[tuple[bytes, bytes | None]]]) -> pa.Array:
    """A column of headers whose names are just these bytes, UTF-8 or not."""
    flat = [pair for row in rows for pair in row]
    fields = LOG.arrow.field("headers").type.value_type
    values = pa.StructArray.from_arrays(
        [raw_texts([name for name, _ in flat]), pa.array([v for _, v in flat], pa.binary())],
        fields=list(fields),
    )
    starts = [0]
    for row in rows:
        starts.append(starts[-1] + len(row))
    kind = LOG.arrow.field("headers").type
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), values, type=kind)


def inbox_rows(values: Sequence[bytes], topic_id: str = "t1", partition: int = 0) -> pa.Table:
    """Records as the ingest hands them to its shard: without hour, stamp and row."""
    count = len(values)
    columns: dict[str, Sequence[Any]] = {
        "topic_id": [topic_id] * count,
        "partition": [partition] * count,
        "value": values,
        "headers": [[{"key": "source", "value": b"test"}]] * count,
        "timestamp": [1_700_000_000_000_000 + i for i in range(count)],
        "bytes": [len(v) for v in values],
    }
    return rows_of(INBOX, columns, without=("hour", "stamp", "row"))


def journal_rows(offsets: Sequence[int], group: str = "g", epoch: int = 1) -> pa.Table:
    """Facts *committed* as the consumer service hands them to its shard."""
    count = len(offsets)
    columns: dict[str, Sequence[Any]] = {
        "kind": ["committed"] * count,
        "group": [group] * count,
        "topic_id": ["t1"] * count,
        "partition": [0] * count,
        "epoch": [epoch] * count,
        "offset": offsets,
    }
    return rows_of(JOURNAL, columns, without=("hour", "stamp", "row"))
