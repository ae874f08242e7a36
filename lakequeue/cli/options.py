"""Options that several commands share, and reading what people write as a position or a time."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, NamedTuple

import typer

from lakequeue.client.admin import Admin
from lakequeue.errors import InvalidRequest
from lakequeue.settings import Settings
from lakequeue.wire import SeekTo, to_micros

Url = Annotated[
    str | None,
    typer.Option("--url", help="Ingest node(s), separated by commas; default from the settings."),
]
ConsumerUrl = Annotated[
    str | None,
    typer.Option("--consumer-url", help="Consumer-service node(s), separated by commas."),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]
TimeoutS = Annotated[
    float, typer.Option("--timeout", min=0.0, help="Seconds to keep trying before giving up.")
]


class WrongUsage(InvalidRequest):
    """An option or argument that cannot be read: nothing was asked of any service."""

    code = "wrong_usage"


def ingest_url(given: str | None) -> str:
    """What `--url` says, else where the settings have the ingest service."""
    ingest = Settings().ingest
    return given or f"http://{ingest.host}:{ingest.port}"


def consumer_url(given: str | None) -> str:
    """What `--consumer-url` says, else where the settings have the consumer service."""
    consumer = Settings().consumer
    return given or f"http://{consumer.host}:{consumer.port}"


def admin(url: str | None = None, consumer: str | None = None, timeout_s: float = 5.0) -> Admin:
    """An `Admin` for the given or configured nodes."""
    return Admin(ingest_url(url), consumer_url(consumer), timeout_s=timeout_s)


class Position(NamedTuple):
    """Where to read from, as a seek says it."""

    to: SeekTo
    offset: int | None = None
    time: int | None = None
    shift: int = 0


def header_of(text: str) -> tuple[str, str]:
    """Name and value of `name=value`. Pure. Raises `WrongUsage`."""
    name, found, value = text.partition("=")
    if not found:
        raise WrongUsage(f"header {text!r} is not valid", hint="-H name=value")
    return name, value


def position_of(text: str, *, relative_to: SeekTo) -> Position:
    """earliest, latest, an offset, -N or +N (from `relative_to`), @TIME. Pure.

    Raises `WrongUsage`.
    """
    if text == "earliest":
        return Position("earliest")
    if text == "latest":
        return Position("latest")
    if re.fullmatch(r"[+-]\d+", text):
        return Position(relative_to, shift=int(text))
    if text.isascii() and text.isdigit():
        return Position("offset", offset=int(text))
    if text.startswith("@") or "T" in text:
        return Position("time", time=micros_of(text.removeprefix("@")))
    raise WrongUsage(
        f"position {text!r} is not valid",
        hint="earliest, latest, an offset, -10, or @2013-01-31T07:00:00Z",
    )


def micros_of(text: str) -> int:
    """Microseconds since 1970 of RFC 3339 (local time without an offset) or milliseconds. Pure.

    Raises `WrongUsage`.
    """
    if text.isascii() and text.isdigit():
        return int(text) * 1000
    try:
        return to_micros(datetime.fromisoformat(text).astimezone())
    except ValueError as e:
        raise WrongUsage(
            f"time {text!r} is not valid",
            hint="2013-01-31T07:00:00Z, or whole milliseconds since 1970",
        ) from e


_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms_of(text: str | None) -> int | None:
    """Milliseconds of `500ms`, `30s`, `10m`, `12h`, `7d`; None stays None. Pure.

    Raises `WrongUsage`.
    """
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)\s*(ms|s|m|h|d)", text)
    if match is None:
        raise WrongUsage(f"duration {text!r} is not valid", hint="500ms, 30s, 10m, 12h or 7d")
    return int(match[1]) * _UNITS_MS[match[2]]
