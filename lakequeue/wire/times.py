"""A time as a field of a request: judged by `lakequeue.times` where it is read."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from lakequeue.errors import InvalidRequest
from lakequeue.times import FIRST_NUMERIC_TIME, micros_of_time, moment_of


def _read(given: Any) -> int:
    if isinstance(given, str) and given.removeprefix("-").isdigit():
        given = int(given)  # a query parameter is a text, whatever it says
    try:
        return micros_of_time(given, "time")
    except InvalidRequest as e:
        raise ValueError(f"{e.detail} ({e.hint})") from None


def _write(micros: int) -> int | str:
    return micros if micros >= FIRST_NUMERIC_TIME else moment_of(micros).isoformat()


TimeOnTheWire = Annotated[int, BeforeValidator(_read), PlainSerializer(_write)]
"""A time in a request, which judges it; in microseconds once it is read."""
