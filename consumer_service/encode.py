"""Rows of `log` as the bytes of a poll's answer. Pure.

Key and value leave as they were sent: JSON is copied byte for byte, never parsed.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import orjson
import pyarrow as pa

from lakequeue.records import Format
from lakequeue.wire import headers_to_json

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
    if rows.num_rows == 0:
        return []
    first = rows.slice(0, 1)
    partition = first["partition"][0].as_py()
    prefix = f"{first['topic_id'][0].as_py()}.{partition}."
    suffix = f".{epoch}.1"
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
        record["attempt"] = 1
        record["receipt"] = f"{prefix}{offset}{suffix}"
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
