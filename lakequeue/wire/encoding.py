"""Keys, values, headers, times and receipts, between Python, storage and JSON."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import orjson

from lakequeue.errors import InvalidRequest
from lakequeue.records import Format, Record
from lakequeue.wire.exact_json import dumps_exactly, loads_exactly
from lakequeue.wire.limits import MAX_HEADERS

UNDECODABLE: Final = "undecodable"
"""Field of a delivered record that cannot be read: why. It has no key, value or headers."""
_LEVELS = 8
"""A value lies so deep in an answer, at most."""
_DEEP = 1_000
"""JSON with fewer brackets cannot be too deep for the parser, which takes 1,024 levels."""


def to_bytes(given: Any) -> tuple[bytes | None, Format]:
    """Stored form of a Python key or value: bytes, str, None, or anything JSON can hold exactly.

    Raises `InvalidRequest` for a value that JSON cannot hold (docs/sdk.md has the table).
    """
    if given is None:
        return None, Format.BYTES
    if isinstance(given, str):
        return _utf8(given), Format.TEXT
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given), Format.BYTES
    return dumps_exactly(given), Format.JSON


def from_bytes(data: bytes | None, fmt: Format | int) -> Any:
    """The Python key or value as it was sent: bytes, str, None, or the parsed JSON."""
    if data is None:
        return None
    fmt = format_in_fact(data, fmt)
    if fmt == Format.TEXT:
        return data.decode()
    return loads_exactly(data) if fmt == Format.JSON else data


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as e:
        raise InvalidRequest(
            f"the text has half of a character at {e.start}: {e.reason}",
            hint="send the bytes that it was read from",
        ) from None


def format_in_fact(data: bytes, fmt: Format | int | None) -> Format:
    """The declared format if the bytes are of it, else `BYTES`.

    Text is UTF-8. JSON is what our own parser reads, also as a part of an answer: so no NaN, no
    lone surrogates, and at most about 1,000 levels.
    """
    try:
        if fmt == Format.TEXT:
            data.decode()
            return Format.TEXT
        if fmt == Format.JSON:
            orjson.loads(data)
            if data.count(b"[") + data.count(b"{") > _DEEP:
                orjson.loads(b"[" * _LEVELS + data + b"]" * _LEVELS)
            return Format.JSON
    except ValueError:
        pass
    return Format.BYTES


def put_key_value(
    record: dict[str, Any], name: Literal["key", "value"], data: bytes | None, fmt: int | None
) -> None:
    """Add `key` or `key_base64` (`value` likewise) to a record of the wire.

    JSON is passed through byte for byte, as an `orjson.Fragment`. Bytes that are not what the
    format says are bytes: base64.
    """
    if data is None:
        record[name] = None
        return
    actual = format_in_fact(data, fmt)
    if actual == Format.TEXT:
        record[name] = data.decode()
    elif actual == Format.JSON:
        record[name] = orjson.Fragment(data)
    else:
        record[f"{name}_base64"] = base64.b64encode(data).decode("ascii")


def key_value_to_json(
    name: Literal["key", "value"], data: bytes | None, fmt: int
) -> dict[str, Any]:
    """What `put_key_value` adds, by itself; for `orjson.dumps`."""
    record: dict[str, Any] = {}
    put_key_value(record, name, data, fmt)
    return record


def key_value_from_json(
    name: Literal["key", "value"], record: Mapping[str, Any]
) -> tuple[bytes | None, Format]:
    """Read `key` or `key_base64` (`value` likewise) of a record of the wire.

    Raises `InvalidRequest` with `field` when both are given or the base64 is damaged.
    """
    encoded = record.get(f"{name}_base64")
    plain = record.get(name)
    if encoded is None:
        return to_bytes(plain)
    if plain is not None:
        raise InvalidRequest(
            f"{name} and {name}_base64 are both given", hint="send one of them", field=name
        )
    return _unbase64(encoded, f"{name}_base64"), Format.BYTES


def _unbase64(encoded: Any, field: str) -> bytes:
    if isinstance(encoded, str):
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            pass
    raise InvalidRequest(f"{field} is not base64", hint="standard alphabet, padded", field=field)


def headers_to_json(headers: Iterable[tuple[str, bytes | None]]) -> list[dict[str, Any]]:
    """Headers in order, each `{"key", "value"}`, or `value_base64` for what is not UTF-8."""
    out: list[dict[str, Any]] = []
    for key, value in headers:
        if value is None:
            out.append({"key": key, "value": None})
            continue
        try:
            out.append({"key": key, "value": value.decode()})
        except UnicodeDecodeError:
            out.append({"key": key, "value_base64": base64.b64encode(value).decode("ascii")})
    return out


def headers_from_json(given: Any, most: int | None = MAX_HEADERS) -> list[tuple[str, bytes | None]]:
    """Read headers: an object of texts, or a list as `headers_to_json` makes it.

    Raises `InvalidRequest` with `field` = "headers", also for more than `most` (None: any number).
    """
    if given is None:
        return []
    items: Iterable[Any]
    if isinstance(given, dict):
        items = ({"key": k, "value": v} for k, v in given.items())
    elif isinstance(given, list):
        items = given
    else:
        raise _bad_headers()
    out: list[tuple[str, bytes | None]] = []
    for item in items:
        if not isinstance(item, dict) or not isinstance(item.get("key"), str):
            raise _bad_headers()
        value, encoded = item.get("value"), item.get("value_base64")
        if encoded is not None:
            out.append((item["key"], _unbase64(encoded, "headers")))
        elif value is None or isinstance(value, str):
            out.append((item["key"], None if value is None else value.encode()))
        else:
            raise _bad_headers()
    if most is not None and len(out) > most:
        raise InvalidRequest(
            f"{len(out)} headers, at most {most}", hint="send fewer", field="headers"
        )
    return out


def _bad_headers() -> InvalidRequest:
    return InvalidRequest(
        "headers are not valid",
        hint='{"name": "text"}, or [{"key": "name", "value": "text" or "value_base64": "…"}]',
        field="headers",
    )


def record_to_json(record: Record, receipt: str, attempt: int = 1) -> dict[str, Any]:
    """A delivered record, for `orjson.dumps`."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        **key_value_to_json("key", record.key, record.key_format),
        **key_value_to_json("value", record.value, record.value_format),
        "headers": headers_to_json(record.headers),
        "timestamp": record.timestamp,
        "message_id": record.message_id,
        "attempt": attempt,
        "receipt": receipt,
    }


def receipt_of(topic_id: str, partition: int, offset: int, epoch: int, attempt: int = 1) -> str:
    """What a consumer acknowledges by; opaque to it."""
    return f"{topic_id}.{partition}.{offset}.{epoch}.{attempt}"


def parse_receipt(receipt: str) -> tuple[str, int, int, int, int]:
    """(topic_id, partition, offset, epoch, attempt) of a receipt; raises `InvalidRequest`."""
    parts = receipt.rsplit(".", 4)
    if len(parts) == 5 and parts[0] and all(p.isascii() and p.isdigit() for p in parts[1:]):
        topic_id, partition, offset, epoch, attempt = parts
        return topic_id, int(partition), int(offset), int(epoch), int(attempt)
    raise InvalidRequest(
        f"receipt {receipt[:80]!r} is not valid",
        hint="send back the receipt of the record as it was delivered",
        field="acks",
    )
