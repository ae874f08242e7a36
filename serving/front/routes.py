"""Which calls there are, and who answers them: one table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from queue_access.calls import MOST_KNOWN, MOST_KNOWN_CHARS
from serving.front.call import Native, Route
from serving.front.hub import Gate
from serving.front.limits.shares import Kind, Share
from serving.front.messages import Request


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
        self._found: dict[tuple[str, str], Route] = {}
        """What was found last: clients call the same paths again and again."""
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
        method, path = request.method, request.path
        route = self._found.get((method, path))
        if route is None:
            route = self._find("GET" if method == "HEAD" else method, path)
            if len(path) <= MOST_KNOWN_CHARS:
                if len(self._found) >= MOST_KNOWN:
                    self._found.clear()
                self._found[method, path] = route
        # Before the body is read, which would be for nothing.
        route.share.check()
        return route

    def _find(self, asked: str, path: str) -> Route:
        return next(
            route
            for method, pattern, route in self._all
            if (not method or method == asked) and pattern.fullmatch(path)
        )
