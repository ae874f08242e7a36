"""One request on its way to its answer: in a thread, waiting without one, or being written."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

from lakequeue.errors import LakequeueError
from serving.front import wsgi
from serving.front.hub import Caller, Hub
from serving.front.limits.budget import Lease
from serving.front.limits.refusals import not_known_within
from serving.front.limits.shares import Share
from serving.front.messages import Answer, Request, problem_of
from serving.front.parking import BLOCKS, FOREVER, Pieces, Steps, Until

T = TypeVar("T")
MOST_LOOKS_PER_S = 200
"""Of all calls of a kind that wait, in case a signal was lost."""
_END = object()


@dataclass(frozen=True, slots=True)
class Route:
    """Who answers, and the share it takes from."""

    share: Share
    max_body: int
    native: Callable[[Call], None] | None
    """Answers without the application, in the event loop: it must not block."""
    within_s: float | None
    """Answered with 503 after that, whatever holds it up."""


class Call:
    """Belongs to the event loop's thread, but for `gone` and what its steps do."""

    __slots__ = (
        "_began", "_built", "_connection", "_due", "_head", "_hub", "_inline", "_over", "_refusal",
        "_steps", "_streams", "_thrown", "_timer", "_waits", "_works", "_wrote", "gone_away",
        "lease", "request", "route",
    )  # fmt: skip

    def __init__(
        self,
        hub: Hub,
        connection: Caller,
        request: Request,
        route: Route,
        lease: Lease | None,
    ) -> None:
        self._hub = hub
        self._began = hub.now()
        self._connection: Caller | None = connection
        self.request = request
        self.route = route
        self.lease = lease
        """What the request's body takes of the budget; given back with the answer."""
        self.gone_away = False
        self._built: Lease | None = None
        """What an answer takes of the share until it is written."""
        self._refusal: LakequeueError | None = None
        """Why it may not go on, although it was let in."""
        self._thrown = False
        self._steps: Steps[Answer] | Pieces | None = None
        self._head: Answer | None = None
        """The head of an answer in pieces."""
        self._streams = False
        """That head is written."""
        self._inline = False
        self._waits: Until | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due: asyncio.TimerHandle | None = None
        self._over = False
        self._wrote = False
        """It waited for a write last: how that ended has to be told."""
        self._works = False
        """A thread is at it, or is to be: its place is taken until then, whoever was answered."""

    def begin(self) -> None:
        """Let whoever answers begin."""
        hub, route = self._hub, self.route
        hub.calls += 1
        try:
            hub.gate.begins(self.request)
            route.share.check()
            if route.share.overfull:
                hub.let_stalled_go(route.share)
                route.share.check_answers()
        except LakequeueError as error:
            route.share.busy += 1
            self.done(problem_of(error))
            return
        route.share.busy += 1
        if route.within_s is not None:
            self._due = hub.loop.call_later(route.within_s, self._too_late)
        self._guarded(partial(route.native or Call.to_application, self))

    def to_application(self) -> None:
        """Let the application answer, in a thread."""
        self._submit(self._work)

    def takes_from(self, name: str) -> None:
        """Count as another kind from now on. Raises `Overloaded`."""
        share = self._hub.shares[name]
        share.check()
        self.route.share.busy -= 1
        share.busy += 1
        self.route = replace(self.route, share=share)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that it is read in."""
        return self._hub.loop

    def gone(self) -> bool:
        """Whether the client has hung up: then an answer would be lost. Thread-safe."""
        return self.gone_away

    def owes_s(self) -> float:
        """How long an answer in pieces has to pause: its caller has read too much. Thread-safe."""
        return self._hub.gate.owes_s(self.request)

    def pauses(self) -> None:
        """It does. For any thread: two at once may count as one."""
        self._hub.pauses += 1

    def in_thread(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        """Do `work` in a thread of the kind, then, back in the loop, `then`."""

        def there() -> None:
            try:
                made = work()
            except Exception as error:  # noqa: BLE001 -- answered, and logged
                answer = self._answer_to(error)
                self._hub.mailbox.post(lambda: self._back(partial(self.done, answer)))
            else:
                self._hub.mailbox.post(lambda: self._back(partial(then, made)))

        self._submit(there)

    def _submit(self, work: Callable[[], object]) -> None:
        self._works = True
        self.route.share.pool.submit(work)

    def _back(self, then: Callable[[], object]) -> None:
        """A thread is done, and so is the call, or `then` is next."""
        self._works = False
        if self._over:
            self.route.share.busy -= 1
        else:
            self._guarded(then)

    def _guarded(self, work: Callable[[], object]) -> None:
        """Do it; what it raises is the answer."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 -- answered, and logged
            self.done(self._answer_to(error))

    def _answer_to(self, error: Exception) -> Answer:
        if isinstance(error, LakequeueError):
            return problem_of(error)
        return self._hub.failed(error, self.request.path)

    def follow(self, steps: Steps[Answer], *, inline: bool = False) -> None:
        """Run these steps: in threads of the kind, or `inline` in the loop, up to `BLOCKS`."""
        self._steps = steps
        self._inline = inline
        self._go_on()

    def done(self, answer: Answer) -> None:
        """The answer. A second one counts for nothing."""
        connection = self._end(answer.status)
        if answer.status == HTTPStatus.FORBIDDEN and self._refusal is None:
            self._hub.gate.forbade(self.request)
        if connection is not None:
            self._reads(answer.body)
            connection.answer(answer, self.request, self.route.share)
        else:
            self._hub.lost(answer, self.route.share)
        self._hub.rest()

    # -- what the connection says -----------------------------------------------------------------

    def hung_up(self) -> None:
        """The client sends no more: it has most likely gone."""
        self.gone_away = True
        if self._waits is not None and self._waits.minds:
            self._resume()

    def left(self) -> None:
        """The connection is closed: nobody gets an answer."""
        self._connection = None
        self.hung_up()

    def drained(self) -> None:
        """What was written of an answer in pieces has left."""
        if self._streams and self._waits is None and not self._over:
            self._next_piece()

    # -- steps ------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        if self._inline:
            declared = self.request.call
            reads = declared is not None and declared.reads
            self._came(self._measured() if reads else self._step())
        else:
            self._submit(self._work)

    def _work(self) -> None:
        """In a thread of the kind."""
        got = self._measured()
        self._hub.mailbox.post(lambda: self._came(got))

    def _measured(self) -> Any:
        """A step, if there is room for an answer."""
        built = self._built = self.route.share.answers.lease()
        try:
            if not self._wrote and self._refusal is None:
                built.grow(self.route.share.built_bytes)
        except LakequeueError as error:
            # Those that began when there was room have filled it meanwhile.
            got: Any = problem_of(error)
            if self._streams and self._steps is not None:
                self._steps.close()
            elif self._steps is not None:
                # It may have done something already, and says so.
                self._refusal = error
                got = self._step()
        else:
            got = self._step()
        if isinstance(got, Answer | bytes):
            built.become(len(got.body if isinstance(got, Answer) else got))
        else:
            built.shrink_to(0)
        return got

    def _step(self) -> Any:
        """`Until`, a piece, an `Answer`, or `_END` of pieces."""
        try:
            if self._steps is None:
                hub = self._hub
                result = wsgi.run(hub.app, self.request, hub.server, self)
                if isinstance(result, Answer):
                    return result
                # A call that waits has no use for what it was asked with.
                self.request.body = b""
                if isinstance(result, wsgi.Streamed) and self.request.method == "HEAD":
                    # Pieces behind it would be taken for the answer to what is asked next.
                    result.pieces.close()
                    return result.answer
                if isinstance(result, wsgi.Streamed):
                    self._steps, self._head = result.pieces, result.answer
                else:
                    self._steps = result.steps
            if self._refusal is not None and not self._thrown:
                # So that the call gives back what it holds, in a thread where it may wait.
                self._thrown = True
                return self._steps.throw(self._refusal)
            got = next(self._steps)
            while got is BLOCKS and not self._inline:
                got = next(self._steps)
            return got
        except StopIteration as end:
            return _END if end.value is None else end.value
        except Exception as error:  # noqa: BLE001 -- answered, and logged
            return self._answer_to(error)

    def _came(self, got: Any) -> None:
        if self._built is not None:
            # From here on what is written counts by itself.
            self._built.shrink_to(0)
            self._built = None
        self._works = False
        if self._over:
            self._came_late(got)
        elif got is BLOCKS:
            self._inline = False
            self._go_on()
        elif isinstance(got, Until):
            self._park(got)
        elif isinstance(got, bytes):
            self._write(got)
        elif got is _END:
            connection = self._end(HTTPStatus.OK)
            if connection is not None:
                connection.end_pieces(self.request)
            self._hub.rest()
        elif self._streams:
            # It failed in the middle: an end without the last chunk says so.
            connection = self._end(HTTPStatus.INTERNAL_SERVER_ERROR)
            if connection is not None:
                connection.drop()
            self._hub.rest()
        else:
            self.done(got)

    def _came_late(self, got: Any) -> None:
        """Its client has been told that this takes too long."""
        share = self.route.share
        share.busy -= 1
        if isinstance(got, Answer):
            self._hub.lost(got, share)
        elif self._steps is not None:
            self._hub.in_turn(share, self._steps.close)

    def _write(self, piece: bytes) -> None:
        connection = self._connection
        if connection is None:
            self._go_on()
            return
        if not self._streams and self._head is not None:
            self._streams = True
            connection.begin_pieces(self._head, self.request)
        self._reads(piece)
        if connection.piece(piece, self.request, self.route.share):
            self._next_piece()

    def _reads(self, body: bytes | memoryview) -> None:
        declared = self.request.call
        if declared is not None and declared.reads:
            self._hub.gate.reads(self.request, len(body))

    def _next_piece(self) -> None:
        # A stream that never waits, for there is always more, has to end with its key as well.
        self._refusal = self._refusal or self._hub.gate.still(self.request)
        self._go_on()

    def _park(self, until: Until) -> None:
        share = self.route.share
        share.busy -= 1
        share.parked += 1
        self._waits = until
        self._wrote = not (until.minds or until.gives_back)
        if until.signal.listen(self._told) or (self.gone_away and until.minds):
            self._resume()
            return
        seconds = until.seconds
        if until.look_s is not None:
            # Not all at once: those that came together would look together.
            looks_s = max(until.look_s, share.parked / MOST_LOOKS_PER_S * random.uniform(0.6, 1.4))
            seconds = min(seconds, looks_s)
        if seconds != FOREVER:
            self._timer = self._hub.loop.call_later(max(0.0, seconds), self._resume)

    def _told(self) -> None:
        """From any thread: what was waited for has come."""
        self._hub.mailbox.post(self._resume)

    def _resume(self) -> None:
        waits = self._waits
        if waits is not None and self._unpark():
            self.route.share.busy += 1
            # A write that is under way ends as it ends: who is refused now would be told that
            # nothing is stored.
            if waits.minds:
                self._refusal = self._hub.gate.still(self.request)
            self._go_on()

    def _unpark(self) -> bool:
        waits, self._waits = self._waits, None
        if waits is None:
            return False
        waits.signal.forget(self._told)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.route.share.parked -= 1
        return True

    def _too_late(self) -> None:
        """Whatever holds it up: the caller is told so."""
        self.done(not_known_within(self.route.within_s or 0.0))

    def _end(self, status: int) -> Caller | None:
        """It is over; the connection to write to, if there is one."""
        if self._over:
            return None
        self._over = True
        self._hub.tally.answered(self.request, status, self._hub.now() - self._began)
        if not self._unpark() and not self._works:
            self.route.share.busy -= 1
        self._hub.calls -= 1
        if self._due is not None:
            self._due.cancel()
        if self.lease is not None:
            self.lease.shrink_to(0)
        self.request.forget_head()
        connection, self._connection = self._connection, None
        return connection


Native = Callable[[Call], None]
