"""The records of one produce request as columns, and groups of requests as one Arrow table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa

from ingest.timing import Due, Timing
from lakequeue import wire
from queue_tables.marks import NO_TOPIC
from queue_tables.schemas import HEADERS, INBOX

Headers = list[tuple[str, bytes | None]]

NO_PARTITION = -1
"""In `Rows.partitions` until the sticky round robin has chosen."""
NO_TIMESTAMP = -1
"""In `Rows.timestamps` until the time of arrival is filled in."""

_TIME = pa.timestamp("us", tz="UTC")
_OWN = frozenset({"hour", "stamp", "row"})
"""Columns that the shard writer adds."""
SUBMITTED = pa.schema([f for f in INBOX.arrow if f.name not in _OWN])
"""What a group is handed to the shard writer as."""


@dataclass(slots=True)
class Rows:
    """The columns of one request; all lists have one entry per record."""

    keys: list[bytes | None] = field(default_factory=list)
    key_formats: list[int] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    value_formats: list[int] = field(default_factory=list)
    headers: list[Headers] | None = None
    """None: no record has any."""
    partitions: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    """Microseconds since 1970 UTC."""
    message_ids: list[str | None] = field(default_factory=list)
    timings: list[Timing | None] | None = None
    """What records say of their delivery and expiry. None: no record says anything."""
    dues: list[Due] | None = None
    """The times that follow from it at arrival. None: all at once, and for ever."""
    sizes: list[int] = field(default_factory=list)
    """Key + value + headers, in bytes."""

    def __len__(self) -> int:
        return len(self.values)

    @property
    def total_bytes(self) -> int:
        """Bytes of all keys, values and headers."""
        return sum(self.sizes)


@dataclass(slots=True)
class Request:
    """A validated produce request: its rows and what all of them share."""

    topic_id: str
    rows: Rows
    producer_id: str | None = None
    producer_epoch: int | None = None
    sequence: int | None = None
    after: int = 0
    atomic: bool = False
    consumed: wire.Consumed | None = None
    consumed_topic_id: str = ""
    request_id: str = ""

    @property
    def bare(self) -> bool:
        """It has no records: its one row carries an epoch or `consumed` alone."""
        return self.topic_id == NO_TOPIC

    @property
    def judged(self) -> bool:
        """The order job may refuse it as a whole: its answer has to wait for that."""
        return self.producer_epoch is not None or self.consumed is not None


def no_record() -> Rows:
    """The one row of a request without records."""
    return Rows([None], [0], [None], [0], None, [0], [NO_TIMESTAMP], [None], sizes=[0])


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
