"""Quartz cron expressions, as Databricks' schedules have them: when they fire.

    second minute hour day-of-month month day-of-week [year]

With numbers, `*`, `a-b`, `a/step`, lists, and `?` in exactly one of the two fields of days; names
of months and days, L, W and # are refused.
"""

from __future__ import annotations

from typing import NamedTuple

_RANGES = {
    "second": (0, 59),
    "minute": (0, 59),
    "hour": (0, 23),
    "day of month": (1, 31),
    "month": (1, 12),
    "day of week": (1, 7),
    "year": (1970, 2099),
}


class Schedule(NamedTuple):
    """The values at which it fires; a field of days is None for `?`."""

    seconds: frozenset[int]
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int] | None
    months: frozenset[int]
    weekdays: frozenset[int] | None


def schedule_of(expression: str) -> Schedule:
    """Raises `ValueError` for what Quartz would refuse, and for what is not understood here."""
    fields = expression.split()
    if not 6 <= len(fields) <= 7:
        raise ValueError(f"{expression!r} has {len(fields)} fields, not 6 or 7")
    if (fields[3] == "?") == (fields[5] == "?"):
        raise ValueError(f"{expression!r}: exactly one of the fields of days must be ?")
    named = dict(zip(_RANGES, fields, strict=False))
    found = {name: None if text == "?" else _values(name, text) for name, text in named.items()}
    second, minute, hour, month = (found[n] for n in ("second", "minute", "hour", "month"))
    if second is None or minute is None or hour is None or month is None:
        raise ValueError(f"{expression!r}: ? is for days")
    return Schedule(second, minute, hour, found["day of month"], month, found["day of week"])


def _values(name: str, text: str) -> frozenset[int]:
    low, high = _RANGES[name]
    values: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        first, dash, last = span.partition("-")
        begin = low if span == "*" else int(first)
        end = int(last) if dash else high if slash or span == "*" else begin
        if not low <= begin <= end <= high or (slash and int(step) < 1):
            raise ValueError(f"{name} {part!r} is not within {low} to {high}")
        values.update(range(begin, end + 1, int(step) if slash else 1))
    return frozenset(values)
