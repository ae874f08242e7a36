"""One line of the audit: who did what, from where, and what came of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import orjson

MOST_CHARS: Final = 4_096
MOST_DEPTH: Final = 40
"""What lies deeper is not kept: nobody leaves no line by a body that takes too long to walk."""
_OURS: Final = "lakequeue-"
"""Headers that the queue writes itself: why a record died, and in which group."""
_SECRET: Final = frozenset({"secret", "authorization", "password", "token", "api_key"})


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the table `audit`, but for its time and its node."""

    principal: str
    call: str
    outcome: str
    name: str = ""
    how: str = ""
    address: str = ""
    status: int | None = None
    detail: str = ""
    before: str | None = None
    after: str | None = None


class Sink(Protocol):
    """Where lines go; see `queue_tables.audit`."""

    def changed(self, line: Line) -> None:
        """A change: written when this returns."""

    def refused(self, line: Line) -> None:
        """A refusal: written soon."""

    def soon(self, line: Line, count: int = 1) -> None:
        """Written soon: for who must not wait. The counts of lines that are alike are added up."""


class Nowhere:
    """A sink without a table: for parts that are tried alone."""

    def changed(self, line: Line) -> None:
        """See `Sink`."""

    def refused(self, line: Line) -> None:
        """See `Sink`."""

    def soon(self, line: Line, count: int = 1) -> None:
        """See `Sink`."""


def without_secrets(said: Any, depth: int = 0) -> Any:
    """The JSON of a request as it may be kept: no secret, and of a URL only where it leads."""
    if depth > MOST_DEPTH:
        return "…"
    if isinstance(said, dict):
        return {k: _shown(str(k), v, depth) for k, v in said.items()}
    if isinstance(said, list):
        return [without_secrets(one, depth + 1) for one in said]
    return said


def _shown(name: str, value: Any, depth: int) -> Any:
    if name.lower() in _SECRET:
        return None if value is None else "(not shown)"
    if name.lower() == "headers" and isinstance(value, dict):
        # Which dead letters are chosen by what producers have written into them.
        return {k: v if str(k).startswith(_OURS) else "(not shown)" for k, v in value.items()}
    if name.lower() == "url" and isinstance(value, str):
        try:
            parts = urlsplit(value)
            return f"{parts.scheme}://{parts.hostname}/…"
        except ValueError:
            return "(not shown)"
    return without_secrets(value, depth + 1)


def kept(body: bytes) -> str | None:
    """What is kept of the body of a change; None: it says nothing."""
    if not body.strip():
        return None
    try:
        text = orjson.dumps(without_secrets(orjson.loads(body))).decode()
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None
    return shortened(text)


def shortened(text: str) -> str:
    """As much of it as a line has room for."""
    return text if len(text) <= MOST_CHARS else text[:MOST_CHARS] + "…"
