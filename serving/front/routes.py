"""Which calls there are, and who answers them: one table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from serving.front.call import Native, Route
from serving.front.hub import Gate
from serving.front.messages import Request
from serving.front.shares import Kind, Share


@dataclass(frozen=True, slots=True)
class Way:
    """Calls that are answered alike: by method, path, and the kind they count as."""

    method: str
    """"" for every one."""
    path: str
    """A regular expression for all of it."""
    kind: Kind
    max_body: int
    native: Native | None = None
    """Answers without the application, in the event loop: it must not block."""
    within_s: float | None = None
    """Answered with 503 after that, whatever holds it up."""


class Routes:
    """The ways of a node. The last takes what none before it does."""

    def __init__(self, ways: Sequence[Way], shares: dict[str, Share], gate: Gate) -> None:
        self._gate = gate
        self._all = [
            (
                way.method,
                # A dot is any character: a path may have a line break, in percents.
                re.compile(way.path, re.DOTALL),
                Route(shares[way.kind.name], way.max_body, way.native, way.within_s),
            )
            for way in ways
        ]

    def find(self, request: Request) -> Route:
        """Who answers. Raises what the gate raises; `Overloaded` if they can take no more."""
        self._gate.admit(request)
        asked = "GET" if request.method == "HEAD" else request.method
        route = next(
            route
            for method, path, route in self._all
            if (not method or method == asked) and path.fullmatch(request.path)
        )
        # Before the body is read, which would be for nothing.
        route.share.check()
        return route
