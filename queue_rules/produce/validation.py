"""Records of a produce request, checked one by one by hand, into columns. Pure.

A model per record would cost ten times the rest of the request, so the check is a loop with a
short way for what nearly every record is: text or a JSON value, known fields, no headers. Any
fault raises `InvalidRequest` (or `TooLarge`) with `record` (index in the request) and `field`,
and refuses the request as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from lakequeue import wire
from lakequeue.errors import InvalidRequest, LakequeueError, TooLarge
from lakequeue.partitioner import PARTITIONERS
from lakequeue.records import Format
from lakequeue.tracing.context import TRACEPARENT, TRACESTATE
from lakequeue.wire.calls.topics import VALUE_FAULT_HEADER, ValuePolicy
from queue_rules.produce import timing
from queue_rules.produce.rows import NO_PARTITION, NO_TIMESTAMP, Headers, Rows
from queue_tables.schema.topic_rules import check_partition
from queue_tables.schema.values.json_cost import MOST_OF_REQUEST
from queue_tables.schema.values.rules import Values, check_value

_FIELDS = wire.RECORD_FIELDS
_MISSING: Any = object()
_TEXT, _BYTES, _JSON = int(Format.TEXT), int(Format.BYTES), int(Format.JSON)

_FREE_HEADERS = (wire.DEAD_LETTER_HEADERS - {wire.DeadLetterHeader.MORE}) | {
    TRACEPARENT,
    TRACESTATE,
}
MAX_FREE_BYTES = 512
"""What a dead letter says of itself does not count: a record of the largest size can die too. And
nothing that is sent becomes too large when its producer begins to trace."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one topic takes: sizes in bytes, partitions and how a key finds its own."""

    partitions: int
    partitioner: str
    max_record_bytes: int
    max_records: int
    value_schema: Values | None = None
    policy: ValuePolicy = "reject"
    """What becomes of a value that is not of the schema."""


def columns_of(  # noqa: C901 -- one pass over all records: calls would cost more than checks
    records: Iterable[Any],
    limits: Limits,
    *,
    message_id_prefix: str | None = None,
    first_sequence: int = 0,
    numbers: Sequence[int] | None = None,
) -> Rows:
    """Check `records` (parsed JSON values) and turn them into columns.

    Keyless records get `NO_PARTITION`, records without a time `NO_TIMESTAMP`. With
    `message_id_prefix` (the producer's id) a record without a message id gets
    `prefix:first_sequence + i`. `numbers`: where each stood in the request, for the message.
    Raises `InvalidRequest`, `TooLarge`.
    """
    rows = Rows()
    keys, key_formats = rows.keys, rows.key_formats
    values, value_formats = rows.values, rows.value_formats
    partitions, timestamps = rows.partitions, rows.timestamps
    message_ids, sizes = rows.message_ids, rows.sizes
    rule = PARTITIONERS[limits.partitioner]
    count, largest = limits.partitions, limits.max_record_bytes
    i = -1
    for i, record in enumerate(records):
        if i >= limits.max_records:
            raise too_many(i + 1, limits.max_records)
        try:
            if type(record) is not dict:
                raise InvalidRequest("a record must be an object", hint=f"one of {_known()}")
            if not _FIELDS.issuperset(record):
                raise _unknown_field(record)

            value = record.get("value", _MISSING)
            if type(value) is str and "value_base64" not in record:
                value, value_format = value.encode(), _TEXT
            else:
                value, value_format = _other("value", value, record)
            key = record.get("key")
            if type(key) is str and "key_base64" not in record:
                key, key_format = key.encode(), _TEXT
            elif key is None and "key_base64" not in record:
                key_format = _BYTES
            else:
                key, key_format = _other("key", key, record)
            size = (len(key) if key is not None else 0) + (len(value) if value is not None else 0)

            given = record.get("headers")
            if given:
                headers = wire.headers_from_json(given)
                size += header_bytes(headers)
                if rows.headers is None:
                    rows.headers = [[] for _ in range(i)]
                rows.headers.append(headers)
            else:
                if given is not None and type(given) not in (dict, list):
                    wire.headers_from_json(given)
                if rows.headers is not None:
                    rows.headers.append([])
            if size > largest:
                raise too_large(size, largest)

            partition = record.get("partition")
            if partition is None:
                partition = NO_PARTITION if key is None else rule(key, count)
            else:
                check_partition(partition, count)

            message_id = record.get("message_id")
            if message_id is not None:
                check_message_id(message_id)
            elif message_id_prefix is not None:
                message_id = f"{message_id_prefix}:{first_sequence + i}"

            given = record.get("timestamp")
            timestamps.append(
                NO_TIMESTAMP if given is None else timing.micros_of(given, "timestamp")
            )

            if not timing.FIELDS.isdisjoint(record):
                if rows.timings is None:
                    rows.timings = [None] * i
                rows.timings.append(timing.timing_of(record))
            elif rows.timings is not None:
                rows.timings.append(None)
        except LakequeueError as e:
            raise at_record(e, i if numbers is None else numbers[i]) from None
        keys.append(key)
        key_formats.append(key_format)
        values.append(value)
        value_formats.append(value_format)
        partitions.append(partition)
        message_ids.append(message_id)
        sizes.append(size)
    if i < 0:
        raise InvalidRequest(
            "the request has no records", hint="send at least one", field="records", stored="no"
        )
    check_values(rows, limits, numbers)
    return rows


def check_values(rows: Rows, limits: Limits, numbers: Sequence[int] | None = None) -> None:
    """Raise `InvalidRequest` for the first record whose value does not satisfy the schema.

    With the policy `warn` it is marked, with `dead_letter` it is listed as dead. Raises `TooLarge`
    before values are judged that would take too long.
    """
    schema = limits.value_schema
    if schema is None:
        return
    so_far = 0
    dead: dict[int, str] = {}
    for i, (value, fmt) in enumerate(zip(rows.values, rows.value_formats, strict=True)):
        if rows.headers is not None and _is_dead_letter(rows.headers[i]):
            # It died for what it is, perhaps: its dead-letter topic must take it all the same.
            continue
        try:
            so_far += schema.evaluations(value)
            if so_far > MOST_OF_REQUEST:
                raise TooLarge(
                    f"the records up to this one may take {so_far} evaluations of the topic's "
                    f"schema, at most {MOST_OF_REQUEST} in a request",
                    hint="send fewer records in one request",
                    field="value",
                )
            if limits.policy == "reject":
                check_value(schema, value, fmt)
            elif (fault := schema.fault(value, fmt)) is None:
                continue
            elif limits.policy == "warn":
                _mark(rows, i, fault)
            else:
                dead[i] = fault
        except LakequeueError as e:
            raise at_record(e, i if numbers is None else numbers[i]) from None
    rows.dead = dead or None


def _mark(rows: Rows, row: int, fault: str) -> None:
    """It does not count in the record's size, and gives way to 64 headers of its producer."""
    rows.faulty += 1
    if rows.headers is None:
        rows.headers = [[] for _ in rows.values]
    if len(rows.headers[row]) < wire.MAX_HEADERS:
        rows.headers[row] = [
            *rows.headers[row],
            (VALUE_FAULT_HEADER, fault.encode(errors="replace")),
        ]


def _is_dead_letter(headers: Headers) -> bool:
    names = {name for name, _ in headers}
    return {wire.DeadLetterHeader.REASON, wire.DeadLetterHeader.TOPIC} <= names


# -- one rule each ------------------------------------------------------------------------------


def _other(
    name: Literal["key", "value"], given: Any, record: dict[str, Any]
) -> tuple[bytes | None, int]:
    """A key or value that is not plain text: base64, JSON, null, or missing."""
    encoded = record.get(f"{name}_base64")
    if given is _MISSING and encoded is None:
        raise InvalidRequest(
            f"{name} is missing",
            hint="give value or value_base64; null for a record without a value",
            field=name,
        )
    if given is _MISSING or given is None or encoded is not None:
        plain = None if given is _MISSING else given
        data, read_as = wire.key_value_from_json(name, {f"{name}_base64": encoded, name: plain})
        return data, int(read_as)
    return _to_json(name, given)


def _to_json(name: str, given: Any) -> tuple[bytes, int]:
    if type(given) is str:
        return given.encode(), _TEXT
    try:
        return orjson.dumps(given), _JSON
    except orjson.JSONEncodeError as e:
        raise InvalidRequest(
            f"{name} cannot be stored: {e}", hint="nest it less deeply", field=name
        ) from None


def header_bytes(headers: Headers) -> int:
    """Bytes that headers count for in a record's size."""
    return sum(
        len(k.encode()) + (len(v) if v is not None else 0)
        for k, v in headers
        if k not in _FREE_HEADERS or (v is not None and len(v) > MAX_FREE_BYTES)
    )


def check_message_id(message_id: Any) -> None:
    """Raise `InvalidRequest` unless it is a text of 1 to 512 characters."""
    if type(message_id) is not str or not 0 < len(message_id) <= wire.MAX_MESSAGE_ID_CHARS:
        raise InvalidRequest(
            f"message_id {_shown(message_id)} is not valid",
            hint=f"text of 1 to {wire.MAX_MESSAGE_ID_CHARS} characters",
            field="message_id",
        )


def too_large(size: int, largest: int) -> TooLarge:
    """413 for one record."""
    return TooLarge(
        f"a record of {size} bytes, at most {largest} are taken",
        hint="key + value + headers count; send less, or raise the topic's max_record_bytes",
        field="value",
    )


def too_many(count: int, most: int) -> TooLarge:
    """413 for the number of records."""
    return TooLarge(
        f"{count} records or more in one request, at most {most} are taken",
        hint="split the request",
        field="records",
        stored="no",
    )


def at_record(error: LakequeueError, index: int) -> LakequeueError:
    """The same error, naming the record by its index in the request."""
    extra = {"field": "records", **error.extra, "record": index}
    detail = f"record {index}: {error.detail}"
    return type(error)(detail, hint=error.hint, stored="no", **extra)


def _unknown_field(record: dict[str, Any]) -> InvalidRequest:
    name = next(k for k in record if k not in _FIELDS)
    return InvalidRequest(
        f"unknown field {_shown(name)}", hint=f"known are {_known()}", field=name[:100]
    )


def _known() -> str:
    return ", ".join(sorted(_FIELDS))


def _shown(given: Any) -> str:
    """A value as it may stand in a message: short."""
    text = repr(given)
    return text if len(text) <= 100 else text[:97] + "…"
