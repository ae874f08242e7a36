"""What a script may ask of its driver, and what it is told."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lakequeue.wire import JSON, loads_exactly

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, apart from the node that it goes to. `path` starts with "/"."""

    method: str
    path: str
    params: Mapping[str, str | int] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = JSON
    read_timeout_s: float = 30.0
    headers: Mapping[str, str] = field(default_factory=dict)
    """Beside that of the body."""


@dataclass(frozen=True, slots=True)
class Http:
    """Send `request` to `url`. Answered by a `Reply`; `Unanswered` is thrown in otherwise."""

    url: str
    request: Request


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until `until()` is true, looked at whenever the notification rings, or `timeout_s` is
    over.
    """

    until: Callable[[], bool]
    timeout_s: float | None


@dataclass(frozen=True, slots=True)
class Together:
    """Run these scripts side by side; answered when all have ended, with their results in order."""

    scripts: Sequence[Script[Any]]


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer of any status. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The parsed body; None when it is empty."""
        return loads_exactly(self.body) if self.body else None


class Unanswered(Exception):
    """The request got no HTTP answer."""

    def __init__(self, detail: str, *, sent: bool) -> None:
        super().__init__(detail)
        self.sent = sent
        """False: the connection was never made, so the request had no effect."""


Effect = Http | Wait | Together
Script = Generator[Effect, Any, T]
"""Yields effects; returns a T. An `Http` effect is answered with its `Reply`."""
Now = Callable[[], float]
"""Monotonic seconds."""
