"""Produce bodies of every media type to one validated request. Pure.

JSON carries records and envelope in one object; the others carry records alone, and the envelope
comes as query parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson
from pydantic import ValidationError

from ingest.http import cloud_events
from ingest.http.arrow_body import columns_of_arrow
from lakequeue import wire
from lakequeue.errors import (
    InvalidRequest,
    LakequeueError,
    MalformedBody,
    UnsupportedMediaType,
)
from lakequeue.wire.cloud_events import BATCH, ONE
from queue_rules.produce.exact_json import loads
from queue_rules.produce.json_body import (
    checked_columns,
    envelope_of,
    invalid,
    json_request_of,
    request_from,
)
from queue_rules.produce.rows import Request
from queue_rules.produce.validation import Limits, at_record, too_many

MEDIA_TYPES: Final = {
    wire.JSON: "json",
    "text/json": "json",
    wire.NDJSON: "ndjson",
    "application/ndjson": "ndjson",
    "application/jsonl": "ndjson",
    wire.ARROW_STREAM: "arrow",
    ONE: "event",
    BATCH: "events",
}
BINARY_EVENT: Final = "binary event"
_QUERY = frozenset(wire.ProduceQuery.model_fields)
_NO_QUERY: Final = wire.ProduceQuery()
"""Nobody changes it: most requests say nothing of the kind, and to make one anew costs as much as
to read a record."""
_LINE: Final = re.compile(rb"\S[^\n]*")
_ENVELOPE = frozenset(wire.ProduceEnvelope.model_fields)


def media_type(content_type: str) -> str:
    """A value of `MEDIA_TYPES`. Raises `UnsupportedMediaType`."""
    plain = content_type.partition(";")[0].strip().lower()
    kind = MEDIA_TYPES.get(plain)
    if kind is None:
        raise UnsupportedMediaType(
            f"Content-Type {content_type[:100]!r} is not supported",
            hint=f"{wire.JSON}, {wire.NDJSON}, {wire.ARROW_STREAM} or {ONE}",
            stored="no",
        )
    return kind


def query_of(args: Mapping[str, str], kind: str) -> tuple[wire.ProduceQuery, dict[str, str]]:
    """The query parameters: how to wait, and the envelope (not for JSON).

    Raises `InvalidRequest` for unknown ones.
    """
    if not args:
        return _NO_QUERY, {}
    wait = {k: v for k, v in args.items() if k in _QUERY}
    rest = {k: v for k, v in args.items() if k not in _QUERY}
    allowed = frozenset() if kind == "json" else _ENVELOPE - {"consumed"}
    for name in rest:
        if name not in allowed:
            known = ", ".join(sorted(_QUERY | allowed))
            raise InvalidRequest(
                f"unknown query parameter {name[:100]!r}",
                hint=f"known are {known}"
                + ("; the envelope goes into the JSON body" if name in _ENVELOPE else ""),
                field=name[:100],
                stored="no",
            )
    try:
        return wire.ProduceQuery.model_validate(wait), rest
    except ValidationError as e:
        raise invalid(e) from None


def request_of(
    body: bytes,
    kind: str,
    query: Mapping[str, str],
    topic_id: str,
    limits: Limits,
    attributes: Mapping[str, str] | None = None,
    take: Callable[[int], object] = lambda _: None,
) -> Request:
    """Parse and check a whole request; `attributes` of an event in binary mode.

    `take` is told what an Arrow body becomes in memory, before it does; it may raise.

    Raises `MalformedBody` (it cannot be parsed), `InvalidRequest`, `TooLarge`; all name what is
    wrong, and with `record` where it is wrong.
    """
    if kind == "json":
        return json_request_of(body, topic_id, limits)
    envelope = envelope_of(dict(query), strict=False)
    if kind == "arrow":
        rows = columns_of_arrow(body, limits, envelope.producer_id, envelope.sequence, take)
        return request_from(topic_id, envelope, rows)

    if attributes is not None:
        records: list[Any] = [cloud_events.record_of_binary(attributes, body)]
    elif kind == "ndjson":
        records = _lines(body, limits)
    else:
        records = cloud_events.records_of_events(body, limits, batch=kind == "events")
    return request_from(topic_id, envelope, checked_columns(records, envelope, limits))


def _lines(body: bytes, limits: Limits) -> list[Any]:
    records: list[Any] = []
    for found in _LINE.finditer(body):
        line = found[0]
        if len(records) >= limits.max_records:
            raise too_many(len(records) + 1, limits.max_records)
        try:
            records.append(loads(line))
        except orjson.JSONDecodeError as e:
            number = body.count(b"\n", 0, found.start()) + 1
            raise MalformedBody(
                f"record {len(records)} (line {number}) is not JSON: {e}",
                hint="one record object a line",
                stored="no",
                record=len(records),
                line=number,
            ) from None
        except LakequeueError as e:
            raise at_record(e, len(records)) from None
    return records
