"""Rows of `log` as the bytes of a poll's answer. Pure.

Key and value leave as they were sent: JSON is copied byte for byte, never parsed.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from itertools import repeat
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from consumer_service.queues.attempts import Attempt, NewRecord
from consumer_service.queues.key_order import key_hash
from lakequeue.records import Format
from lakequeue.wire import QueueReceipt, group_checksum, headers_to_json
from queue_tables.facts import Key
from queue_tables.record_states import NEVER

COLUMNS = [
    "topic_id",
    "topic",
    "partition",
    "offset",
    "key",
    "value",
    "key_format",
    "value_format",
    "headers",
    "timestamp",
    "message_id",
    "deliver_at",
    "expires_at",
]
"""What delivery needs of a log file."""


def records_of(rows: pa.Table, epoch: int) -> list[dict[str, Any]]:
    """The records of `rows` (columns `COLUMNS`, one partition), ready for `orjson.dumps`.

    The shape is that of `lakequeue.wire.record_to_json`, made a column at a time for speed.
    """
    records = _plain_records(rows)
    if records:
        prefix = f"{rows['topic_id'][0].as_py()}.{records[0]['partition']}."
        for record in records:
            record["attempt"] = 1
            record["receipt"] = f"{prefix}{record['offset']}.{epoch}.1"
    return records


def queue_records_of(
    rows: pa.Table, key: Key, generation: int, attempts: Iterable[Attempt]
) -> list[dict[str, Any]]:
    """As `records_of`, for a queue group: `attempts` are those of `rows`, one by one."""
    records = _plain_records(rows)
    group = group_checksum(key.group)
    where = (key.topic_id, key.partition)
    for record, one in zip(records, attempts, strict=True):
        receipt = QueueReceipt(*where, one.offset, generation, one.attempt, group)
        record["attempt"] = one.attempt
        record["receipt"] = str(receipt)
        record["deadline"] = one.deadline
    return records


def new_records_of(rows: pa.Table, *, keys: bool) -> list[NewRecord]:
    """What a queue partition has to know of rows that it has not seen; `keys`: their keys too."""
    deliver_at = pc.fill_null(rows["deliver_at"].cast(pa.int64()), 0).to_pylist()
    expires_at = pc.fill_null(rows["expires_at"].cast(pa.int64()), NEVER).to_pylist()
    hashes = map(key_hash, rows["key"].to_pylist()) if keys else repeat(0)
    return list(map(NewRecord, rows["offset"].to_pylist(), hashes, deliver_at, expires_at))


def _plain_records(rows: pa.Table) -> list[dict[str, Any]]:
    if rows.num_rows == 0:
        return []
    partition = rows["partition"][0].as_py()
    timestamps = rows["timestamp"].cast(pa.int64()).to_pylist()
    columns = zip(
        rows["topic"].to_pylist(),
        rows["offset"].to_pylist(),
        rows["key"].to_pylist(),
        rows["key_format"].to_pylist(),
        rows["value"].to_pylist(),
        rows["value_format"].to_pylist(),
        _headers(rows["headers"]),
        timestamps,
        rows["message_id"].to_pylist(),
        strict=True,
    )
    out: list[dict[str, Any]] = []
    for topic, offset, key, key_format, value, value_format, headers, timestamp, mid in columns:
        record: dict[str, Any] = {"topic": topic, "partition": partition, "offset": offset}
        _put(record, "key", key, key_format)
        _put(record, "value", value, value_format)
        record["headers"] = headers
        record["timestamp"] = timestamp
        record["message_id"] = mid
        out.append(record)
    return out


def _put(record: dict[str, Any], name: str, data: bytes | None, fmt: int | None) -> None:
    if data is None:
        record[name] = None
    elif fmt == Format.TEXT:
        record[name] = data.decode()
    elif fmt == Format.JSON:
        record[name] = orjson.Fragment(data)
    else:
        record[f"{name}_base64"] = base64.b64encode(data).decode("ascii")


def _headers(column: pa.ChunkedArray) -> Iterable[list[dict[str, Any]]]:
    if column.null_count == len(column):
        empty: list[dict[str, Any]] = []
        return [empty] * len(column)
    return [
        headers_to_json((h["key"], h["value"]) for h in headers) if headers else []
        for headers in column.to_pylist()
    ]
