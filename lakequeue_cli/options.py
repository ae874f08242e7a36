"""Options that several commands share, and reading what people write as a position or a time."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, NamedTuple

import typer

from lakequeue.arguments import micros_of, past_of
from lakequeue.calling import addresses
from lakequeue.client.admin import Admin
from lakequeue.clock import Micros
from lakequeue.errors import WrongUsage
from lakequeue.wire import SeekTo, moment_of
from lakequeue_cli.output import note

Url = Annotated[
    str | None,
    typer.Option("--url", help="Ingest nodes, separated by commas; default: from the settings."),
]
ConsumerUrl = Annotated[
    str | None,
    typer.Option("--consumer-url", help="Consumer-service nodes, separated by commas."),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]
TimeoutS = Annotated[
    float,
    typer.Option("--timeout", min=0.0, metavar="S", help="Seconds to retry before it fails."),
]


def ingest_url(given: str | None) -> str:
    """What `--url` says, else where the SDK finds the ingest service."""
    return ",".join(addresses.named(addresses.ingest_urls(given)))


def consumer_url(given: str | None) -> str:
    """What `--consumer-url` says, else where the SDK finds the consumer service."""
    return ",".join(addresses.named(addresses.consumer_urls(given)))


def admin(url: str | None = None, consumer: str | None = None, timeout_s: float = 5.0) -> Admin:
    """An `Admin` for the given or configured nodes."""
    return Admin(ingest_url(url), consumer_url(consumer), timeout_s=timeout_s)


class Position(NamedTuple):
    """Where to read from, as a seek says it."""

    to: SeekTo
    offset: int | None = None
    time: datetime | None = None
    shift: int = 0


def position_of(text: str, *, relative_to: SeekTo) -> Position:
    """earliest, latest, committed, an offset, -N or +N (from `relative_to`), @TIME.

    `committed` only where a shift is relative to that. Raises `WrongUsage`.
    """
    if text == "committed" == relative_to:
        return Position("committed")
    if text == "earliest":
        return Position("earliest")
    if text == "latest":
        return Position("latest")
    if re.fullmatch(r"[+-]\d+", text):
        return Position(relative_to, shift=int(text))
    if text.isascii() and text.isdigit():
        return Position("offset", offset=int(text))
    if text.startswith("@") or "T" in text:
        return Position("time", time=moment_of(time_of(text.removeprefix("@"))))
    raise WrongUsage(
        f"position {text!r} is not valid",
        hint=f"earliest, latest, {'committed, ' * (relative_to == 'committed')}an offset, -10, "
        "or @2013-01-31T07:00:00Z",
    )


def time_of(text: str, now: Micros | None = None) -> Micros:
    """Microseconds of a time, or with `now` also of a duration before it.

    Unless it is typed in UTC, the time that was understood is said on standard error. Raises
    `WrongUsage`.
    """
    micros = Micros(micros_of(text)) if now is None else past_of(text, now)
    if not text.upper().endswith("Z"):
        note(f"{text} is {moment_of(micros).isoformat().removesuffix('+00:00')}Z")
    return micros
