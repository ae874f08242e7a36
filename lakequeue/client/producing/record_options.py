"""What may be said of a record beside its topic, value and key: declared once, for every `send`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypedDict

from lakequeue.errors import InvalidRequest
from lakequeue.wire import MAX_SPAN_MS, to_micros

HeadersIn = Mapping[str, str | bytes] | Sequence[tuple[str, str | bytes | None]] | None


class RecordOptions(TypedDict, total=False):
    """Options of a record: those of `send` of both producers, of `atomic` and of `transform`."""

    headers: HeadersIn
    """Pairs of name and value (text or bytes), or a mapping."""
    partition: int | None
    """The partition, if it must be a certain one."""
    timestamp: datetime | int | None
    """The record's own time: a datetime with a zone, or microseconds since 1970."""
    message_id: str | None
    """An id of your own. A record with an id that the topic had before is dropped."""
    delay_s: float | None
    """Queue groups get the record after this time, not earlier."""
    deliver_at: datetime | int | None
    """Queue groups get the record at this time, not earlier: a datetime with a zone, or
    microseconds since 1970."""
    ttl_s: float | None
    """The record is not delivered when this time is over."""


def timing_of(
    delay_s: float | None, deliver_at: datetime | int | None, ttl_s: float | None
) -> dict[str, int] | None:
    """The wire's fields of a delay and a time to live; raises `InvalidRequest` naming the field.

    `deliver_at`: a datetime with a zone, or microseconds since 1970 UTC.
    """
    out: dict[str, int] = {}
    if deliver_at is not None:
        if delay_s is not None:
            raise InvalidRequest(
                "deliver_at and delay_s are both given", hint="give one of them", field="delay_s"
            )
        if isinstance(deliver_at, datetime):
            if deliver_at.tzinfo is None:
                raise InvalidRequest(
                    f"deliver_at {deliver_at} has no zone",
                    hint="datetime.now(UTC) + …",
                    field="deliver_at",
                )
            deliver_at = to_micros(deliver_at)
        out["deliver_at"] = deliver_at
    for name, field, seconds, least in (
        ("delay_s", "delay_ms", delay_s, 0),
        ("ttl_s", "ttl_ms", ttl_s, 1),
    ):
        if seconds is None:
            continue
        if not least <= seconds * 1_000 <= MAX_SPAN_MS:
            raise InvalidRequest(
                f"{name}={seconds} is not valid",
                hint=f"seconds, {least / 1_000:g} to {MAX_SPAN_MS // 1_000}",
                field=name,
            )
        out[field] = math.ceil(seconds * 1_000)
    return out or None
