"""Requests that come while others are under way go together in the next one.

A node of the services makes one commit for what comes together, and an HTTP request costs more than
what is in it. So a gateway sends ten requests at once as one, and a single one at once. Those who
were answered together come again together, but one after the other. So when the first of them has
come, its request waits for all who asked a moment ago, as long as one after the other comes.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from serving.front.limits.shares import Pool

A = TypeVar("A")
R = TypeVar("R")

SLOW_S = 0.2
"""What takes longer holds up nobody who comes later."""
_MOST_SLOW = 8
GATHER_S = 0.006
"""For so long a request waits for company at most,"""
GAP_S = 0.002
"""and for so long when nobody comes."""
AGAIN_S = 0.02
"""Whoever was answered longer ago is not waited for: it does something else."""


@dataclass(slots=True)
class _Ticket(Generic[A, R]):
    """What one caller asks for."""

    items: Sequence[A]
    future: Future[list[R | Exception]] = field(default_factory=Future)


class Combined(Generic[A, R]):
    """Thread-safe. So many requests are under way at once, each in a thread of the pool."""

    def __init__(
        self,
        do: Callable[[list[A]], list[R | Exception]],
        *,
        pool: Pool,
        at_once: int,
        most: int,
        size: Callable[[A], int] = lambda _: 1,
        most_slow: int = _MOST_SLOW,
    ) -> None:
        """`do` takes items to their results, in order. `most`: the size of what it is given.

        `most_slow`: so many slow requests hold up nobody.
        """
        self._do = do
        self._pool = pool
        self._at_once, self._most, self._size = at_once, most, size
        self._most_slow = most_slow
        self._lock = threading.Lock()
        self._waiting: deque[_Ticket[A, R]] = deque()
        self._began: dict[int, float] = {}
        """Requests under way, and since when."""
        self._numbers = 0
        self._company = threading.Condition(self._lock)
        self._expected = 0
        self._ended_at = float("-inf")

    def ask(self, items: Sequence[A]) -> list[R | Exception]:
        """The result of each item, or its error."""
        return self.begin(items).result()

    def begin(self, items: Sequence[A]) -> Future[list[R | Exception]]:
        """The same, when it is there."""
        mine: _Ticket[A, R] = _Ticket(items)
        with self._lock:
            self._waiting.append(mine)
            if len(self._waiting) == self._expected:
                self._company.notify_all()
            if not self._may_begin():
                return mine.future
            self._numbers += 1
            number = self._numbers
            self._began[number] = time.monotonic()
        self._pool.submit(lambda: self._run(number))
        return mine.future

    def _may_begin(self) -> bool:
        quick = time.monotonic() - SLOW_S
        slow = sum(at < quick for at in self._began.values())
        return len(self._began) - min(slow, self._most_slow) < self._at_once

    def _run(self, number: int) -> None:
        """Ask for those who wait, until nobody does."""
        while True:
            with self._lock:
                self._gather()
                some = self._take()
                if not some:
                    del self._began[number]
                    return
                self._began[number] = time.monotonic()
            self._ask_for(some)

    def _gather(self) -> None:
        """Wait for as many as asked a moment ago, if some are there."""
        now = time.monotonic()
        end = now + GATHER_S
        if now - self._ended_at >= AGAIN_S:
            return
        while 0 < (there := len(self._waiting)) < self._expected and now < end:
            self._company.wait(min(GAP_S, end - now))
            if len(self._waiting) == there:
                return
            now = time.monotonic()

    def _take(self) -> list[_Ticket[A, R]]:
        some: list[_Ticket[A, R]] = []
        size = 0
        while self._waiting:
            size += sum(map(self._size, self._waiting[0].items))
            if some and size > self._most:
                break
            some.append(self._waiting.popleft())
        return some

    def _ask_for(self, some: list[_Ticket[A, R]]) -> None:
        items = [item for one in some for item in one.items]
        try:
            results: list[R | Exception] = self._do(items)
        except Exception as error:  # noqa: BLE001 -- each caller gets it
            results = [error] * len(items)
        with self._lock:
            # Those who were too late for it have asked as well.
            self._expected = len(some) + len(self._waiting)
            self._ended_at = time.monotonic()
        at = 0
        for one in some:
            one.future.set_result(results[at : at + len(one.items)])
            at += len(one.items)
