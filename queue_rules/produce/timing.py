"""When a record may be delivered, and until when: checking what was sent, and working it out. Pure.

A producer says `deliver_at` (a time) or `delay_ms` (from arrival), and `ttl_ms`. What is stored is
two times: `deliver_at` and `expires_at`. The time to live runs from the moment the record may first
be delivered, or a delay longer than it would lose the record; the topic's `ttl_ms` holds where the
record has none. Both are fixed at arrival: a later change of the topic moves no record.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lakequeue import wire
from lakequeue.errors import InvalidRequest

FIELDS = frozenset({"deliver_at", "delay_ms", "ttl_ms"})

# One rule for every time that comes in, whatever call it is a part of.
micros_of = wire.micros_of_time
check_time = wire.check_time


class Timing(NamedTuple):
    """What one record says: microseconds since 1970 UTC, milliseconds; None: nothing."""

    deliver_at: int | None = None
    delay_ms: int | None = None
    ttl_ms: int | None = None


class Due(NamedTuple):
    """What is stored of one record, in microseconds since 1970 UTC."""

    deliver_at: int | None
    """None: at once."""
    expires_at: int | None
    """None: never."""


def timing_of(record: dict[str, Any]) -> Timing | None:
    """Read and check the fields `FIELDS` of a record in JSON; None if it has none of them.

    Raises `InvalidRequest` naming the field.
    """
    deliver_at = record.get("deliver_at")
    return checked(
        None if deliver_at is None else micros_of(deliver_at, "deliver_at"),
        record.get("delay_ms"),
        record.get("ttl_ms"),
    )


def checked(deliver_at: int | None, delay_ms: Any, ttl_ms: Any) -> Timing | None:
    """The same for values that were read already. Raises `InvalidRequest` naming the field."""
    if deliver_at is None and delay_ms is None and ttl_ms is None:
        return None
    if deliver_at is not None:
        check_time(deliver_at, "deliver_at")
        if delay_ms is not None:
            raise InvalidRequest(
                "deliver_at and delay_ms are both given", hint="send one of them", field="delay_ms"
            )
    _check_span("delay_ms", delay_ms, 0)
    _check_span("ttl_ms", ttl_ms, 1)
    return Timing(deliver_at, delay_ms, ttl_ms)


def due_of(timing: Timing | None, arrival: int, topic_ttl_ms: int | None) -> Due:
    """The two times of a record that arrived at `arrival` (microseconds)."""
    deliver_at, delay_ms, ttl_ms = timing or Timing()
    if delay_ms is not None:
        deliver_at = arrival + delay_ms * 1_000
    if ttl_ms is None:
        ttl_ms = topic_ttl_ms
    if ttl_ms is None:
        return Due(deliver_at, None)
    return Due(deliver_at, max(arrival, deliver_at or arrival) + ttl_ms * 1_000)


def _check_span(field: str, given: Any, least: int) -> None:
    if given is not None and (type(given) is not int or not least <= given <= wire.MAX_SPAN_MS):
        text = repr(given)[:60]
        raise InvalidRequest(
            f"{field} {text} is not valid",
            hint=f"whole milliseconds, {least} to {wire.MAX_SPAN_MS} (100 years)",
            field=field,
        )
