"""Receives of one queue that come together go to the services as one poll.

A poll costs a node more than what is in it: the messages of a poll are delivered by one commit. So
those that come while polls are under way go together in the next one. A receive that waits takes no
thread of its own: one poll waits for all of them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from lakequeue.clock import boot_seconds
from lakequeue.wire.limits import MAX_WAIT_MS
from serving.front.limits.shares import Pool

AT_ONCE: Final = 2
"""Polls of a queue, beside the one that waits."""
MOST: Final = 160
"""Messages of a poll."""
SHORT_S: Final = 0.02
"""Who waits for less does not wait."""

Record = dict[str, Any]
Poll = Callable[[int, float], list[Record]]
"""At most so many messages, waiting for so many seconds; blocking."""


@dataclass(slots=True, eq=False)
class Ticket:
    """One receive."""

    most: int
    until: float
    """It waits until then, by the boot clock."""
    gone: Callable[[], bool]
    future: Future[list[Record]] = field(default_factory=Future)

    def left_s(self, now: float) -> float:
        """For so long it waits still."""
        return max(0.0, self.until - now)


class Line:
    """Receives of one queue, with one visibility. Thread-safe."""

    def __init__(self, poll: Poll, give_back: Callable[[list[Record]], object], pool: Pool) -> None:
        self._poll = poll
        self._give_back = give_back
        self._pool = pool
        self._lock = threading.Lock()
        self._waiting: deque[Ticket] = deque()
        self._polls = 0
        self._waits = 0
        """Of the polls, those that wait for something to come."""

    @property
    def idle(self) -> bool:
        """Nobody wants anything."""
        return not self._polls and not self._waiting

    def ask(self, ticket: Ticket) -> None:
        """Its future has its messages in time. Whoever does not want them any more withdraws."""
        with self._lock:
            self._waiting.append(ticket)
            # A poll that waits says that nothing is there: whoever waits, waits for its end.
            waits = self._waits > 0 and ticket.left_s(boot_seconds()) > SHORT_S
            begins = not waits and self._polls - self._waits < AT_ONCE
            self._polls += begins
        if begins:
            self._pool.submit(self._run)

    def withdraw(self, ticket: Ticket) -> bool:
        """It gets nothing any more. False: a poll is under way for it."""
        with self._lock:
            try:
                self._waiting.remove(ticket)
            except ValueError:
                return False
        return True

    def _run(self) -> None:
        """Poll for all who wait, until nobody does."""
        while True:
            with self._lock:
                some = self._take()
                if not some:
                    self._polls -= 1
                    return
                wait_s = min(one.left_s(boot_seconds()) for one in some)
                if self._waits:
                    # One that waits is enough.
                    wait_s = 0.0
                waits = wait_s > SHORT_S
                self._waits += waits
            try:
                found = self._poll(sum(one.most for one in some), wait_s)
            except Exception as error:  # noqa: BLE001 -- whoever asked gets it
                with self._lock:
                    self._waits -= waits
                for one in some:
                    one.future.set_exception(error)
                continue
            with self._lock:
                self._waits -= waits
            if not self._deal(some, found):
                return

    def _take(self) -> list[Ticket]:
        some: list[Ticket] = []
        room = MOST
        while self._waiting and self._waiting[0].most <= room:
            one = self._waiting.popleft()
            some.append(one)
            room -= one.most
        return some

    def _deal(self, some: Sequence[Ticket], found: list[Record]) -> bool:
        """Give each what it may have; who gets nothing waits on. False: another polls for them."""
        now, at = boot_seconds(), 0
        without: list[Ticket] = []
        for one in some:
            mine = [] if one.gone() else found[at : at + one.most]
            at += len(mine)
            if mine or one.gone() or one.left_s(now) <= SHORT_S:
                one.future.set_result(mine)
            else:
                without.append(one)
        if found[at:]:
            self._give_back(found[at:])
        with self._lock:
            self._waiting.extendleft(reversed(without))
            if without and self._waits and all(one.left_s(now) > SHORT_S for one in self._waiting):
                self._polls -= 1
                return False
        return True


class Receiving:
    """Receives in the name of one caller. Thread-safe."""

    def __init__(
        self,
        ask: Callable[[str, dict[str, Any], float], Any],
        give_back: Callable[[str, list[Record]], object],
        pool: Pool,
    ) -> None:
        """`ask`: the answer to a call of the services that may wait for so many seconds.
        `give_back`: messages of a queue that nobody wants."""
        self._ask = ask
        self._give_back = give_back
        self._pool = pool
        self._lock = threading.Lock()
        self._lines: dict[tuple[str, int | None], Line] = {}

    def ask(self, queue: str, visibility_ms: int | None, ticket: Ticket) -> Line:
        """Begin a receive; it may be withdrawn from what this returns."""
        with self._lock:
            line = self._lines.get((queue, visibility_ms))
            if line is None:
                self._lines = {key: one for key, one in self._lines.items() if not one.idle}
                line = self._lines[queue, visibility_ms] = self._line(queue, visibility_ms)
            line.ask(ticket)
        return line

    def _line(self, queue: str, visibility_ms: int | None) -> Line:
        hidden = {} if visibility_ms is None else {"visibility_timeout_ms": visibility_ms}
        path = f"/v1/groups/{queue}/receive"

        def poll(most: int, wait_s: float) -> list[Record]:
            wait_ms = min(MAX_WAIT_MS, round(wait_s * 1_000))
            answer = self._ask(path, {"max": most, "wait_ms": wait_ms} | hidden, wait_s)
            records: list[Record] = answer["records"]
            return records

        return Line(poll, partial(self._give_back, queue), self._pool)
