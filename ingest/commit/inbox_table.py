"""Requests as rows of the inbox: one Arrow table a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa

from queue_rules.produce.rows import Headers, Request, Rows
from queue_tables.delta.columns import HEADERS
from queue_tables.schema.schemas import INBOX

_TIME = pa.timestamp("us", tz="UTC")


_OWN = frozenset({"hour", "stamp", "row"})
"""Columns that the shard writer adds."""


SUBMITTED = pa.schema([f for f in INBOX.arrow if f.name not in _OWN])
"""What a group is handed to the shard writer as."""


def to_table(requests: Sequence[Request]) -> pa.Table:
    """One table with the rows of all requests in order: the columns of `SUBMITTED`."""
    rows = [r.rows for r in requests]
    counts = [len(r.values) for r in rows]
    columns: dict[str, pa.Array] = {
        "topic_id": _each(counts, [r.topic_id for r in requests], pa.string()),
        "partition": pa.array([p for r in rows for p in r.partitions], pa.int32()),
        "key": pa.array([k for r in rows for k in r.keys], pa.binary()),
        "value": pa.array([v for r in rows for v in r.values], pa.binary()),
        "key_format": pa.array([f for r in rows for f in r.key_formats], pa.int32()),
        "value_format": pa.array([f for r in rows for f in r.value_formats], pa.int32()),
        "headers": _headers(rows, sum(counts)),
        "timestamp": pa.array([t for r in rows for t in r.timestamps], _TIME),
        "message_id": pa.array([m for r in rows for m in r.message_ids], pa.string()),
        "producer_id": _each(counts, [r.producer_id for r in requests], pa.string()),
        "producer_epoch": _each(counts, [r.producer_epoch for r in requests], pa.int64()),
        "sequence": _sequences(rows, [r.sequence for r in requests]),
        "deliver_at": _dues(rows, counts, 0),
        "expires_at": _dues(rows, counts, 1),
        "request": _each(counts, [r.request_id for r in requests], pa.string()),
        "atomic": _each(counts, [r.atomic for r in requests], pa.bool_()),
        "consumed": _each(counts, [_consumed(r) for r in requests], pa.string()),
        "bytes": pa.array([s for r in rows for s in r.sizes], pa.int32()),
    }
    return pa.table([columns[f.name] for f in SUBMITTED], schema=SUBMITTED)


def _consumed(request: Request) -> str | None:
    """As the order job reads it: by topic id, since a topic of that name may be another one."""
    if request.consumed is None:
        return None
    said = request.consumed.model_dump(exclude={"topic", "topic_id"})
    return orjson.dumps(said | {"topic_id": request.consumed_topic_id}).decode()


def _each(counts: list[int], values: list[Any], kind: pa.DataType) -> pa.Array:
    """A column with `values[i]` in each of the `counts[i]` rows of request i."""
    if len(set(values)) == 1:
        # Most requests of a group say the same here, or nothing.
        return pa.repeat(pa.scalar(values[0], kind), sum(counts))
    return pa.array([v for v, n in zip(values, counts, strict=True) for _ in range(n)], kind)


def _sequences(rows: list[Rows], firsts: list[int | None]) -> pa.Array:
    if set(firsts) == {None}:
        return pa.nulls(sum(map(len, rows)), pa.int64())
    out: list[int | None] = []
    for first, one in zip(firsts, rows, strict=True):
        if first is None:
            out.extend([None] * len(one))
        elif one.places is None:
            out.extend(range(first, first + len(one)))
        else:
            out.extend([first + place for place in one.places])
    return pa.array(out, pa.int64())


def _dues(rows: list[Rows], counts: list[int], which: int) -> pa.Array:
    if not any(r.dues for r in rows):
        return pa.nulls(sum(counts), _TIME)
    out: list[int | None] = []
    for one, count in zip(rows, counts, strict=True):
        dues = one.dues
        out.extend([None] * count if dues is None else [due[which] for due in dues])
    return pa.array(out, _TIME)


def _headers(rows: list[Rows], total: int) -> pa.Array:
    """An empty list, not null, where a record has no headers."""
    if not any(r.headers for r in rows):
        empty = pa.array([], HEADERS.value_type)
        return pa.ListArray.from_arrays(pa.array([0] * (total + 1), pa.int32()), empty)
    out: list[Headers] = []
    for r in rows:
        out.extend(r.headers if r.headers is not None else [[] for _ in r.values])
    return pa.array(out, HEADERS)
