"""A request as it was read whole, and an answer as it is written. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_to_bytes

import orjson

from lakequeue import wire
from lakequeue.errors import LakequeueError, SentOn, TryAgain, Unauthenticated
from queue_access.calls import CallRight
from queue_access.doors import ANYBODY, Caller, Certificate
from queue_access.rights import Kind, Right
from serving.front.limits.budget import Lease

Header = tuple[bytes, bytes]
_DEFAULT_RETRY_S = 1.0
_NO_BODY = frozenset({204, 304})


@dataclass(slots=True)
class Seat:
    """A connection, as quotas see it."""

    principal: str | None = None
    """Whose it is; None: nobody has shown."""


@dataclass(slots=True)
class Request:
    """A request; its body is complete when somebody is asked to answer it."""

    method: str
    target: bytes
    path: str
    """Percent-decoded; bytes that are no UTF-8 are replaced."""
    query: str
    headers: list[Header]
    """Names in small letters."""
    address: str
    version: str = "1.1"
    keep_alive: bool = True
    body: bytes = b""
    certificate: Certificate | None = None
    seat: Seat = field(default_factory=Seat)
    caller: Caller = ANYBODY
    call: CallRight | None = None
    about: str = ""
    """The topic, group or producer in the path, as far as rights are over it."""
    also: list[tuple[Right, Kind, str]] = field(default_factory=list)
    """What was asked of the caller beside that, for names that stand elsewhere."""

    held: Lease | None = None
    """What its head takes of the budget of heads, if that is much."""

    def head_bytes(self) -> int:
        """Bytes of the target and the headers."""
        return len(self.target) + sum(len(name) + len(value) for name, value in self.headers)

    def forget_head(self) -> None:
        """The request is answered, or refused: give back what its head took."""
        if self.held is not None:
            self.held.shrink_to(0)
            self.held = None
            self.headers = []

    def header(self, name: bytes) -> str:
        """The value of the first header of this name (small letters); "" if there is none."""
        for key, value in self.headers:
            if key == name:
                return value.decode("latin-1")
        return ""


@dataclass(slots=True)
class Answer:
    """What is written."""

    status: int
    body: bytes | memoryview = b""
    content_type: str | None = None
    headers: Sequence[tuple[str, str]] = ()
    sent: Callable[[], object] | None = field(default=None, repr=False)
    """Called when the last byte has left this process."""
    lost: Callable[[], object] | None = field(default=None, repr=False)
    """Called in a thread if it has not: the client hung up, or did not read."""


def json_of(body: Any, status: int = 200) -> Answer:
    """`body` as JSON."""
    return Answer(status, orjson.dumps(body), wire.JSON)


def problem_of(error: LakequeueError) -> Answer:
    """An error (RFC 9457), with `Retry-After` where another try may help."""
    if isinstance(error, TryAgain) and error.retry_after_s is None:
        error.retry_after_s = _DEFAULT_RETRY_S
    headers: list[tuple[str, str]] = []
    if isinstance(error, SentOn) and "location" in error.extra:
        headers.append(("Location", str(error.extra["location"])))
    if isinstance(error, Unauthenticated):
        headers.append(("WWW-Authenticate", 'Bearer realm="lakequeue"'))
    if error.retry_after_s is not None:
        # Whole seconds, as the header wants them, and never 0; the body has the exact time.
        headers.append(("Retry-After", str(max(1, round(error.retry_after_s)))))
    return Answer(error.http_status, orjson.dumps(error.to_problem()), wire.PROBLEM, headers)


def decoded(path: bytes) -> str:
    """A path as it was meant."""
    return (unquote_to_bytes(path) if b"%" in path else path).decode("utf-8", "replace")


def head_of(answer: Answer, *, close: bool, chunked: bool = False, date: str) -> bytes:
    """The status line and headers, with the empty line."""
    line = _STATUS_LINES.get(answer.status) or _status_line(answer.status)
    plain = answer.content_type is not None and answer.status not in _NO_BODY
    if plain and not (chunked or close or answer.headers):
        # Nearly every answer: put together at once.
        length = len(answer.body)
        return (
            f"{line}\r\nDate: {date}\r\nContent-Type: {answer.content_type}\r\n"
            f"Content-Length: {length}\r\n\r\n"
        ).encode("latin-1", "replace")
    lines = [line, f"Date: {date}"]
    if answer.content_type is not None:
        lines.append(f"Content-Type: {answer.content_type}")
    lines += [f"{name}: {value}" for name, value in answer.headers]
    if chunked:
        lines.append("Transfer-Encoding: chunked")
    elif answer.status not in _NO_BODY and not _measured(answer):
        lines.append(f"Content-Length: {len(answer.body)}")
    if close:
        lines.append("Connection: close")
    lines.append("\r\n")
    return "\r\n".join(lines).encode("latin-1", "replace")


def _measured(answer: Answer) -> bool:
    """It says its length itself: what it would be to a GET."""
    return not answer.body and any(name.lower() == "content-length" for name, _ in answer.headers)


def chunk_of(piece: bytes) -> bytes:
    """One chunk of a body without a length."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


LAST_CHUNK = b"0\r\n\r\n"


def date_of(second: int) -> str:
    """The `Date` header of a second since 1970."""
    return formatdate(second, usegmt=True)


def _status_line(status: int) -> str:
    try:
        return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP/1.1 {status} "


_STATUS_LINES = {int(status): _status_line(status) for status in HTTPStatus}
