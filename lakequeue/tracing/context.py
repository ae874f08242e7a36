"""Trace contexts as W3C has them: two headers of a record, or of a request. Pure.

What is not well formed is no context, and harms nothing: nobody's send fails for its trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
_PARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-[!-~]*)?"
)
_LENGTH = 55
_MEMBER = re.compile(r"[ \t]*([a-z0-9][a-z0-9_\-*/@]{0,255}=[ -~]{0,256})?[ \t]*")
_MOST_STATE, _MOST_MEMBERS = 512, 32


class TraceContext(NamedTuple):
    """A context that is well formed."""

    traceparent: str
    tracestate: str = ""

    @property
    def trace_id(self) -> int:
        """Which trace it is."""
        return int(self.traceparent[3:35], 16)

    @property
    def span_id(self) -> int:
        """The span of it that the record, or the request, came from."""
        return int(self.traceparent[36:52], 16)

    @property
    def flags(self) -> int:
        """1: the trace is sampled."""
        return int(self.traceparent[53:55], 16)

    def headers(self) -> list[tuple[str, bytes | None]]:
        """As headers of a record."""
        found: list[tuple[str, bytes | None]] = [(TRACEPARENT, self.traceparent.encode())]
        if self.tracestate:
            found.append((TRACESTATE, self.tracestate.encode()))
        return found

    def of_request(self) -> dict[str, str]:
        """As headers of an HTTP request."""
        state = {TRACESTATE: self.tracestate} if self.tracestate else {}
        return {TRACEPARENT: self.traceparent, **state}


def context_of(parent: str | bytes | None, state: str | bytes | None = None) -> TraceContext | None:
    """The context that two headers say; None: the first is not well formed, or not there.

    A `tracestate` that is not well formed is dropped, and the context stays.
    """
    text = _text(parent)
    found = _PARENT.fullmatch(text)
    # Later versions may say more behind; what is known of them comes first.
    if found is None or (text.startswith("00") and len(text) != _LENGTH):
        return None
    return TraceContext(f"00-{found[1]}-{found[2]}-{found[3]}", _state(_text(state)))


def in_headers(headers: Iterable[tuple[str, bytes | None]]) -> TraceContext | None:
    """The context that a record has."""
    parent = state = None
    for name, value in headers:
        if name == TRACEPARENT:
            parent = value
        elif name == TRACESTATE:
            state = value
    return None if parent is None else context_of(parent, state)


def in_record(record: Mapping[str, Any]) -> TraceContext | None:
    """The same of a delivered record of the wire."""
    parent = state = None
    for header in record.get("headers") or ():
        name = header["key"]
        if name == TRACEPARENT:
            parent = header.get("value")
        elif name == TRACESTATE:
            state = header.get("value")
    return None if parent is None else context_of(parent, state)


def has_parent(headers: Iterable[tuple[str, Any]]) -> bool:
    """Whether a record says something of its trace, well formed or not: that is left as it is."""
    return any(name == TRACEPARENT for name, _ in headers)


def _text(given: str | bytes | None) -> str:
    if isinstance(given, bytes):
        return given.decode("latin-1")
    return given if isinstance(given, str) else ""


def _state(text: str) -> str:
    members = text.split(",")
    sound = len(text) <= _MOST_STATE and len(members) <= _MOST_MEMBERS
    return text if sound and all(map(_MEMBER.fullmatch, members)) else ""
