"""The front of a node: takes connections, hands each request to who answers it.

One thread, that of the event loop, has all of this. What may block runs in the threads of a kind.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from lakequeue.errors import Broken, Overloaded
from serving.front import wsgi
from serving.front.budget import Budget, Lease
from serving.front.call import Call
from serving.front.connection import Connection
from serving.front.deadlines import Deadlines
from serving.front.mailbox import Mailbox
from serving.front.messages import Answer, Request, date_of, problem_of
from serving.front.shares import Kind, Share

log = structlog.get_logger(__name__)

_SCAN = 256
"""So many connections are looked at for one that can make room."""
Native = Callable[[Call], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """What connections may do; see `FrontSettings`."""

    connections: int
    per_address: int
    header_s: float
    idle_s: float
    body_grace_s: float
    body_bytes_per_s: float
    write_s: float
    write_bytes_per_s: float


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


@dataclass(frozen=True, slots=True)
class Route:
    """A way, with the share it takes from."""

    share: Share
    max_body: int
    native: Native | None
    within_s: float | None


class Front:
    """Everything that connections share."""

    def __init__(
        self,
        app: wsgi.App,
        ways: Sequence[Way],
        limits: Limits,
        bodies: Budget,
        server: tuple[str, int],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """The last of `ways` takes what none before it does."""
        self.app = app
        self.limits = limits
        self.bodies = bodies
        self.server = server
        self.loop = loop
        self.mailbox = Mailbox(loop)
        self.wheel = Deadlines()
        self.now = loop.time
        self.shares: dict[str, Share] = {}
        for way in ways:
            self.shares.setdefault(way.kind.name, Share(way.kind))
        self._routes = [
            (
                way.method,
                re.compile(way.path),
                Route(self.shares[way.kind.name], way.max_body, way.native, way.within_s),
            )
            for way in ways
        ]
        self.connections: dict[Connection, None] = {}
        self._of_address: dict[str, int] = {}
        self.stalled: dict[Connection, None] = {}
        """Those whose clients have not taken all of an answer yet, in the order of the answers."""
        self.calls = 0
        """Requests that are being answered."""
        self.let_go = 0
        """Connections that were ended because their clients were too slow."""
        self.refused = 0
        """Connections beyond the limits."""
        self.draining = False
        self.rested: Callable[[], None] = lambda: None
        """Called while draining, when nothing is under way any more."""
        self._date = (0, "")

    # -- connections ------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> Answer | None:
        """Count a new connection; or what it is refused with."""
        limits, address = self.limits, connection.address
        mine = self._of_address.get(address, 0)
        refusal: Overloaded | None = None
        if mine >= limits.per_address and not self._make_room(address):
            refusal = _too_many(f"{mine} connections from {address} are open", limits.per_address)
        elif len(self.connections) >= limits.connections and not self._make_room(None):
            total = len(self.connections)
            refusal = _too_many(f"{total} connections are open", limits.connections)
        self.connections[connection] = None
        self._of_address[address] = self._of_address.get(address, 0) + 1
        if refusal is None:
            return None
        self.refused += 1
        if len(self.connections) > limits.connections + _SCAN:
            # Not even the answer has a place.
            connection.drop()
        return problem_of(refusal)

    def closed(self, connection: Connection) -> None:
        """It is over."""
        if connection in self.connections:
            del self.connections[connection]
            left = self._of_address[connection.address] - 1
            if left:
                self._of_address[connection.address] = left
            else:
                del self._of_address[connection.address]
        self.rest()

    def _make_room(self, address: str | None) -> bool:
        """End the connection that has been idle for longest, of those from `address`, if any is."""
        looked = 0
        for connection in list(self.connections) if address else self.connections:
            if address is not None and connection.address != address:
                continue
            looked += 1
            if connection.idle and self.now() - connection.opened_at > 1.0:
                connection.drop()
                self.closed(connection)
                return True
            if looked >= _SCAN:
                return False
        return False

    def let_stalled_go(self, share: Share) -> None:
        """Make room: end connections whose clients have not read an answer of this kind."""
        now = self.now()
        for connection in list(self.stalled):
            if share.unread <= share.kind.unread_bytes * 3 // 4:
                return
            if connection.stalls(share, now):
                connection.let_go()

    @property
    def unread(self) -> int:
        """Bytes of answers that clients have not taken yet."""
        return sum(share.unread for share in self.shares.values())

    def tick(self) -> None:
        """Look at whoever has run out of time."""
        now = self.now()
        for connection in self.wheel.passed(now):
            assert isinstance(connection, Connection)  # noqa: S101 -- nothing else is put in
            try:
                connection.expired(now)
            except Exception:
                # The others of this moment are out of the wheel already: they must be looked at.
                log.exception("front.deadline_failed")
                connection.drop()

    # -- requests ---------------------------------------------------------------------------------

    def route(self, request: Request) -> Route:
        """Who answers; the last way takes all. Raises `Overloaded` if they can take no more."""
        asked = "GET" if request.method == "HEAD" else request.method
        route = next(
            route
            for method, path, route in self._routes
            if (not method or method == asked) and path.fullmatch(request.path)
        )
        # Before the body is read, which would be for nothing.
        route.share.check()
        return route

    def call(
        self, connection: Connection, request: Request, route: Route, lease: Lease | None
    ) -> Call:
        """A request that is whole, to be begun."""
        return Call(self, connection, request, route, lease)

    def failed(self, error: BaseException, path: str) -> Answer:
        """The caller gets a problem like any other; the trace is for the operator."""
        log.error("request.failed", path=path, exc_info=error)
        said = f"unexpected {type(error).__name__}; the log of this node has the details"
        return problem_of(Broken(said, hint="report it, with the log", stored="unknown"))

    def date(self) -> str:
        """The `Date` header of now."""
        second = int(time.time())
        if self._date[0] != second:
            self._date = (second, date_of(second))
        return self._date[1]

    # -- the end ----------------------------------------------------------------------------------

    def drain(self) -> None:
        """Take no more requests; those under way are answered."""
        self.draining = True
        for connection in list(self.connections):
            connection.drain()
        self.rest()

    def rest(self) -> None:
        """Tell, while draining, when nothing is under way any more."""
        if self.draining and not self.calls and all(c.idle for c in self.connections):
            self.rested()


def _too_many(said: str, most: int) -> Overloaded:
    return Overloaded(
        f"{said} at this node, at most {most} may be",
        hint="use fewer connections, or another node",
        stored="no",
        retry_after_s=1.0,
    )
