"""What all connections of a node share: limits, deadlines, shares, counters.

One thread, that of the event loop, has all of this. What may block runs in the threads of a kind.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import structlog

from lakequeue.errors import Broken, LakequeueError, Overloaded
from serving.front import wsgi
from serving.front.heads import KnownHeads
from serving.front.limits.budget import Budget
from serving.front.limits.deadlines import Deadlines, Due
from serving.front.limits.shares import Kind, Share
from serving.front.limits.tally import Tally
from serving.front.mailbox import Mailbox
from serving.front.messages import Answer, Request, Seat, date_of, problem_of

log = structlog.get_logger(__name__)

_INCOMING_BYTES = 64 << 10
_HEADS_BYTES = 32 << 20
"""A budget of their own: whoever sends large heads must not stop those who send records."""
_SCAN = 256
"""So many connections are looked at for one that can make room."""
_TURNED_AWAY = 256
"""So many connections beyond a limit wait at most until they have their answers."""
_AT_ONCE, _PAUSE_S = 4, 0.005
"""So many connections are ended, then the loop rests: each takes 50 to 150 µs, and as long as the
loop is busy no other thread gets on. Thousands of them in a row held up every commit beside."""
_BACKLOG_S = 5.0
"""More at once if there are so many that it would take longer than this."""


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


class Peer(Due, Protocol):
    """A connection, as those that share the node with it see it."""

    address: str
    opened_at: float

    @property
    def idle(self) -> bool:
        """Nothing is under way here: it can make room."""

    def expired(self, now: float) -> None:
        """A deadline is over."""

    def stalls(self, share: Share, now: float) -> bool:
        """An answer of this kind has waited to be read for a while."""

    def let_go(self) -> None:
        """End it, for its client does not read."""

    def drain(self) -> None:
        """The node stops: end it after what is under way."""

    def drop(self) -> None:
        """End it now."""


class Caller(Protocol):
    """The connection of a call, as the call sees it."""

    def answer(self, answer: Answer, request: Request, share: Share) -> None:
        """Write the answer of the call under way; it is over with this."""

    def begin_pieces(self, answer: Answer, request: Request) -> None:
        """The head of an answer in pieces; the call goes on."""

    def piece(self, piece: bytes, request: Request, share: Share) -> bool:
        """A piece; False: the call hears `drained` when it has left."""

    def end_pieces(self, request: Request) -> None:
        """The answer in pieces is complete."""

    def drop(self) -> None:
        """End it now."""


REFUSALS = (
    "unauthenticated",
    "forbidden",
    "foreign_page",
    "wrong_host",
    "over_quota",
    "issuer_unavailable",
)
"""Codes of errors that a gate refuses requests with."""


class Gate(Protocol):
    """Decides whether a request comes in at all. Asked by the event loop: it must not block."""

    refusals: dict[str, int]
    """Code of the error → how often."""

    def admit(self, request: Request) -> None:
        """Put down in `request` who calls. Raises what a refusal is answered with.

        The head of the request is there, and nothing else.
        """

    def begins(self, request: Request) -> None:
        """The request is whole. Raises as above."""

    def reads(self, request: Request, size: int) -> None:
        """So many bytes of records leave with its answer, or with a piece of it."""

    def owes_s(self, request: Request) -> float:
        """How long its caller has to read nothing more; 0: it may. For any thread."""

    def still(self, request: Request) -> LakequeueError | None:
        """Why a call that has waited may not go on; None: it may."""

    def forbade(self, request: Request) -> None:
        """A request that was let in was answered with 403."""

    def left(self, seat: Seat) -> None:
        """The connection with this seat is over."""


class Everybody:
    """Lets everybody in."""

    def __init__(self) -> None:
        self.refusals = dict.fromkeys(REFUSALS, 0)

    def admit(self, request: Request) -> None:
        """See `Gate`."""

    def begins(self, request: Request) -> None:
        """See `Gate`."""

    def reads(self, request: Request, size: int) -> None:
        """See `Gate`."""

    def owes_s(self, request: Request) -> float:
        """See `Gate`."""
        return 0.0

    def still(self, request: Request) -> LakequeueError | None:
        """See `Gate`."""
        return None

    def forbade(self, request: Request) -> None:
        """See `Gate`."""

    def left(self, seat: Seat) -> None:
        """See `Gate`."""


class Hub:
    """Everything that connections and calls share."""

    def __init__(
        self,
        app: wsgi.App,
        kinds: Iterable[Kind],
        limits: Limits,
        bodies: Budget,
        server: tuple[str, int],
        loop: asyncio.AbstractEventLoop,
        gate: Gate | None = None,
    ) -> None:
        self.app = app
        self.gate: Gate = gate or Everybody()
        self.limits = limits
        self.bodies = bodies
        self.heads_held = Budget(_HEADS_BYTES)
        """What large heads take, from their first bytes until their requests are answered."""
        self.server = server
        self.loop = loop
        self.mailbox = Mailbox(loop)
        self.incoming = memoryview(bytearray(_INCOMING_BYTES))
        """What a connection has just received. A new 256 KiB for each, as asyncio takes by itself,
        costs five times as much as to receive a small request."""
        self.heads = KnownHeads()
        self.wheel: Deadlines[Peer] = Deadlines()
        self.overdue: deque[Peer] = deque()
        """Those whose deadline is over and who were not looked at yet."""
        self.now = loop.time
        self.tally = Tally()
        self.shares = {kind.name: Share(kind) for kind in kinds}
        self.connections: dict[Peer, None] = {}
        self.turned_away: dict[Peer, None] = {}
        """Those beyond a limit, until they have their answers. They take nobody's place."""
        self._of_address: dict[str, int] = {}
        self.stalled: dict[Peer, None] = {}
        """Those whose clients have not taken all of an answer yet, in the order of the answers."""
        self.calls = 0
        """Requests that are being answered."""
        self.late = {"headers": 0, "body": 0, "answer": 0, "idle": 0}
        """Connections that were ended because their clients were too slow, by what with."""
        self.pauses = 0
        """How often an answer in pieces waited because its caller had read too much."""
        self.refused = {"connections": 0, "address": 0}
        """Connections beyond a limit."""
        self.draining = False
        self.rested: Callable[[], None] = lambda: None
        """Called while draining, when nothing is under way any more."""
        self._date = (0, "")

    # -- connections ------------------------------------------------------------------------------

    def opened(self, connection: Peer) -> Answer | None:
        """Count a new connection; or what it is refused with."""
        limits, address = self.limits, connection.address
        mine = self._of_address.get(address, 0)
        refusal: Overloaded | None = None
        if mine >= limits.per_address and not self._make_room(address):
            self.refused["address"] += 1
            refusal = _too_many(f"{mine} connections from {address} are open", limits.per_address)
        elif len(self.connections) >= limits.connections and not self._make_room(None):
            total = len(self.connections)
            self.refused["connections"] += 1
            refusal = _too_many(f"{total} connections are open", limits.connections)
        if refusal is None:
            self.connections[connection] = None
            self._of_address[address] = self._of_address.get(address, 0) + 1
            return None
        if len(self.turned_away) >= _TURNED_AWAY:
            # Not even the answer has a place.
            connection.drop()
        self.turned_away[connection] = None
        return problem_of(refusal)

    def closed(self, connection: Peer) -> None:
        """It is over."""
        self.turned_away.pop(connection, None)
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
            if share.answers.used <= share.answers.limit // 2:
                return
            if connection.stalls(share, now):
                connection.let_go()

    def lost(self, answer: Answer, share: Share | None) -> None:
        """Nobody gets this answer: whoever made it hears so, in a thread, as it may wait there."""
        if answer.lost is not None and share is not None:
            self.in_turn(share, answer.lost)

    def in_turn(self, share: Share, work: Callable[[], object]) -> None:
        """Do this in a thread of the kind. Nobody waits for it."""

        def there() -> None:
            try:
                work()
            except Exception:
                log.exception("front.clean_up_failed")

        share.pool.submit(there)

    @property
    def unread(self) -> int:
        """Bytes of answers that clients have not taken yet."""
        return sum(share.unread for share in self.shares.values())

    def tick(self) -> None:
        """Look at whoever has run out of time."""
        looking = bool(self.overdue)
        self.overdue.extend(self.wheel.passed(self.now()))
        if not looking:
            self._look()

    def _look(self) -> None:
        """A few at a time: thousands that came together run out of time together."""
        late, now = self.overdue, self.now()
        for _ in range(min(len(late), max(_AT_ONCE, int(len(late) * _PAUSE_S / _BACKLOG_S)))):
            connection = late.popleft()
            if connection.due > now:
                continue  # something has come meanwhile
            try:
                connection.expired(now)
            except Exception:
                # The others of this moment are out of the wheel already: they must be looked at.
                log.exception("front.deadline_failed")
                connection.drop()
        if late:
            self.loop.call_later(_PAUSE_S, self._look)

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
