"""What a service answers to a poll, in JSON or in columns, as records of the wire. Pure.

In columns, bytes come as they are: `key` and `value` of a record then hold `bytes`, where JSON has
`key_base64` and `value_base64`.
"""

from __future__ import annotations

from typing import Any, Final

from lakequeue.calling.effects import Reply
from lakequeue.errors import Broken
from lakequeue.records import Format
from lakequeue.wire import ARROW_STREAM, BESIDE, JSON, from_bytes, headers_to_json, loads_exactly
from lakequeue.wire.arrow_reader import read_stream

ACCEPT: Final = f"{ARROW_STREAM}, {JSON}"
_TEXT, _JSON = int(Format.TEXT), int(Format.JSON)


def read_poll(reply: Reply) -> dict[str, Any]:
    """The answer, as JSON has it. Raises `Broken`."""
    if not reply.headers.get("content-type", "").startswith(ARROW_STREAM):
        # Not through pydantic: there are thousands of records in it.
        plain: dict[str, Any] = reply.json()
        return plain
    try:
        stream = read_stream(reply.body)
        body: dict[str, Any] = loads_exactly(stream.metadata[BESIDE])
        body["records"] = _records(stream.columns)
    except (ValueError, KeyError) as e:
        raise Broken(f"the answer to a poll cannot be read: {e}") from e
    return body


def _records(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    keys = _payloads(columns["key"], columns["key_format"])
    values = _payloads(columns["value"], columns["value_format"])
    rows = zip(
        columns["topic"],
        columns["partition"],
        columns["offset"],
        keys,
        values,
        columns["headers"],
        columns["timestamp"],
        columns["message_id"],
        columns["receipt"],
        strict=True,
    )
    return [
        {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "key": key,
            "value": value,
            # Nothing in it refers to other objects then: the garbage collector leaves it out.
            "headers": headers_to_json(headers) if headers else None,
            "timestamp": timestamp,
            "message_id": message_id,
            "attempt": 1,
            "receipt": receipt,
        }
        for topic, partition, offset, key, value, headers, timestamp, message_id, receipt in rows
    ]


def _payloads(cells: list[Any], formats: list[Any]) -> list[Any]:
    if not any(formats):
        return cells
    return [_payload(cell, fmt) for cell, fmt in zip(cells, formats, strict=True)]


def _payload(data: bytes | None, fmt: int | None) -> Any:
    """As `wire.from_bytes`, with less ado for text and bytes."""
    if fmt == _JSON:
        return from_bytes(data, fmt)
    if fmt != _TEXT or data is None:
        return data
    try:
        return data.decode()
    except ValueError:
        return data
