"""Requests that come while others are under way go together in the next one.

A node of the services makes one commit for what comes together, and an HTTP request costs more than
what is in it. So a gateway sends ten requests at once as one, and a single one at once.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

A = TypeVar("A")
R = TypeVar("R")


@dataclass(slots=True)
class _Ticket(Generic[A, R]):
    """What one caller asks for."""

    items: Sequence[A]
    results: list[R | Exception] | None = None
    turn: threading.Event = field(default_factory=threading.Event)
    """It has its results, or its caller is to lead."""


class Combined(Generic[A, R]):
    """Thread-safe. It has no threads of its own: one of the callers asks for all that wait."""

    def __init__(
        self,
        do: Callable[[list[A]], list[R | Exception]],
        *,
        at_once: int,
        most: int,
        size: Callable[[A], int] = lambda _: 1,
    ) -> None:
        """`do` takes items to their results, in order. `most`: the size of what it is given."""
        self._do = do
        self._at_once, self._most, self._size = at_once, most, size
        self._lock = threading.Lock()
        self._waiting: deque[_Ticket[A, R]] = deque()
        self._leaders = 0

    def ask(self, items: Sequence[A]) -> list[R | Exception]:
        """The result of each item, or its error."""
        mine: _Ticket[A, R] = _Ticket(items)
        with self._lock:
            self._waiting.append(mine)
            leads = self._leaders < self._at_once
            self._leaders += leads
        if not leads:
            mine.turn.wait()
        if mine.results is None:
            return self._lead(mine)
        return mine.results

    def _lead(self, mine: _Ticket[A, R]) -> list[R | Exception]:
        """Ask for those who wait, until `mine` is among them; then another leads, if any waits."""
        while mine.results is None:
            with self._lock:
                some = self._take()
            self._ask_for(some, mine)
        with self._lock:
            if self._waiting:
                self._waiting[0].turn.set()
            else:
                self._leaders -= 1
        return mine.results

    def _take(self) -> list[_Ticket[A, R]]:
        some: list[_Ticket[A, R]] = []
        size = 0
        while self._waiting:
            size += sum(map(self._size, self._waiting[0].items))
            if some and size > self._most:
                break
            some.append(self._waiting.popleft())
        return some

    def _ask_for(self, some: list[_Ticket[A, R]], mine: _Ticket[A, R]) -> None:
        items = [item for one in some for item in one.items]
        try:
            results: list[R | Exception] = self._do(items)
        except Exception as error:  # noqa: BLE001 -- each caller gets it
            results = [error] * len(items)
        at = 0
        for one in some:
            one.results = results[at : at + len(one.items)]
            at += len(one.items)
            if one is not mine:
                one.turn.set()
