"""The front of a node: takes connections, hands each request to who answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from serving.front import wsgi
from serving.front.connection import Connection
from serving.front.hub import Gate, Hub, Limits
from serving.front.limits.budget import Budget
from serving.front.routes import Routes, Way


class Front(Hub):
    """What is shared, and the table of calls."""

    def __init__(
        self,
        app: wsgi.App,
        ways: Sequence[Way],
        limits: Limits,
        bodies: Budget,
        server: tuple[str, int],
        loop: asyncio.AbstractEventLoop,
        gate: Gate | None = None,
    ) -> None:
        super().__init__(app, (way.kind for way in ways), limits, bodies, server, loop, gate)
        self._routes = Routes(ways, self.shares, self.gate)

    def connection(self) -> Connection:
        """A client comes."""
        return Connection(self, self._routes)
