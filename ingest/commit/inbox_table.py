"""Requests as rows of the inbox: one Arrow table a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa

from queue_rules.produce.rows import Headers, Request
from queue_tables.delta.columns import HEADERS
from queue_tables.schema.schemas import INBOX

_TIME = pa.timestamp("us", tz="UTC")


_OWN = frozenset({"hour", "stamp", "row"})
"""Columns that the shard writer adds."""


SUBMITTED = pa.schema([f for f in INBOX.arrow if f.name not in _OWN])
"""What a group is handed to the shard writer as."""


def to_table(requests: Sequence[Request]) -> pa.Table:
    """One table with the rows of all requests in order: the columns of `SUBMITTED`."""
    counts = [len(r.rows) for r in requests]
    columns: dict[str, pa.Array] = {
        "topic_id": _each(requests, counts, [r.topic_id for r in requests], pa.string()),
        "partition": pa.array([p for r in requests for p in r.rows.partitions], pa.int32()),
        "key": pa.array([k for r in requests for k in r.rows.keys], pa.binary()),
        "value": pa.array([v for r in requests for v in r.rows.values], pa.binary()),
        "key_format": pa.array([f for r in requests for f in r.rows.key_formats], pa.int32()),
        "value_format": pa.array([f for r in requests for f in r.rows.value_formats], pa.int32()),
        "headers": _headers(requests, sum(counts)),
        "timestamp": pa.array([t for r in requests for t in r.rows.timestamps], _TIME),
        "message_id": pa.array([m for r in requests for m in r.rows.message_ids], pa.string()),
        "producer_id": _each(requests, counts, [r.producer_id for r in requests], pa.string()),
        "producer_epoch": _each(requests, counts, [r.producer_epoch for r in requests], pa.int64()),
        "sequence": _sequences(requests, counts),
        "deliver_at": _dues(requests, counts, 0),
        "expires_at": _dues(requests, counts, 1),
        "request": _each(requests, counts, [r.request_id for r in requests], pa.string()),
        "atomic": _each(requests, counts, [r.atomic for r in requests], pa.bool_()),
        "consumed": _each(requests, counts, [_consumed(r) for r in requests], pa.string()),
        "bytes": pa.array([s for r in requests for s in r.rows.sizes], pa.int32()),
    }
    return pa.table([columns[f.name] for f in SUBMITTED], schema=SUBMITTED)


def _consumed(request: Request) -> str | None:
    """As the order job reads it: by topic id, since a topic of that name may be another one."""
    if request.consumed is None:
        return None
    said = request.consumed.model_dump(exclude={"topic", "topic_id"})
    return orjson.dumps(said | {"topic_id": request.consumed_topic_id}).decode()


def _each(
    requests: Sequence[Request], counts: list[int], values: list[Any], kind: pa.DataType
) -> pa.Array:
    """A column with `values[i]` in each of the `counts[i]` rows of request i."""
    if len(requests) == 1:
        return pa.repeat(pa.scalar(values[0], kind), counts[0])
    return pa.array([v for v, n in zip(values, counts, strict=True) for _ in range(n)], kind)


def _sequences(requests: Sequence[Request], counts: list[int]) -> pa.Array:
    out: list[int | None] = []
    for request, count in zip(requests, counts, strict=True):
        if request.sequence is None:
            out.extend([None] * count)
        else:
            out.extend(range(request.sequence, request.sequence + count))
    return pa.array(out, pa.int64())


def _dues(requests: Sequence[Request], counts: list[int], which: int) -> pa.Array:
    if all(r.rows.dues is None for r in requests):
        return pa.nulls(sum(counts), _TIME)
    out: list[int | None] = []
    for request, count in zip(requests, counts, strict=True):
        dues = request.rows.dues
        out.extend([None] * count if dues is None else [due[which] for due in dues])
    return pa.array(out, _TIME)


def _headers(requests: Sequence[Request], total: int) -> pa.Array:
    """An empty list, not null, where a record has no headers."""
    if all(r.rows.headers is None for r in requests):
        empty = pa.array([], HEADERS.value_type)
        return pa.ListArray.from_arrays(pa.array([0] * (total + 1), pa.int32()), empty)
    out: list[Headers] = []
    for r in requests:
        out.extend(r.rows.headers if r.rows.headers is not None else [[] for _ in r.rows.values])
    return pa.array(out, HEADERS)
