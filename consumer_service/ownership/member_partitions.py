"""The partitions of one member: what it is told of them, and which of them a poll looks at.

A member may have thousands of partitions, of which mostly few have something new. A poll should
cost what these cost. So whatever gives a poll something to do in a partition marks it, and a poll
looks at those that are marked. In case a mark was forgotten, it looks at all now and then.
"""

from __future__ import annotations

import threading
from bisect import insort
from collections.abc import Callable
from functools import cached_property
from hashlib import blake2b
from operator import attrgetter
from typing import Any, Final, Generic, Protocol, TypeVar

import orjson

LOOK_AT_ALL_S: Final = 1.0
"""How often a poll looks at all partitions of its member, marked or not."""


class OneOfMany(Protocol):
    """What is asked of a partition here."""

    among: Any
    """The `MemberPartitions` that it is in."""

    @property
    def order(self) -> tuple[str, int]:
        """Its place among the others."""

    def row(self) -> dict[str, Any] | None:
        """What its member is told of it."""


P = TypeVar("P", bound=OneOfMany)


class AssignmentRows:
    """What a member is told that it has, as of one moment. Nobody may change it."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows
        """Of `Assigned`, as they leave."""

    @cached_property
    def epochs(self) -> dict[tuple[str, int], int | None]:
        """The same by topic and partition."""
        return {(row["topic"], row["partition"]): row["epoch"] for row in self.rows}

    @cached_property
    def digest(self) -> bytes:
        """Equal if the rows are; there may be thousands of them."""
        return blake2b(orjson.dumps(self.rows), digest_size=16).digest()


class MemberPartitions(Generic[P]):
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Nothing else is taken while it is held."""
        self.all: list[P] = []
        """In a steady order; replaced and never changed."""
        self._marked: dict[P, None] = {}
        """In the order in which they were marked: who gives now comes last the next time."""
        self._at_all = float("-inf")
        """When all are to be looked at again."""
        self._age = object()
        """Another one after each change of what is told."""
        self._told: tuple[object, AssignmentRows] | None = None
        """With the age that it is of."""

    def add(self, one: P) -> None:
        """It is the member's now."""
        with self._lock:
            one.among = self
            mine = self.all.copy()
            insort(mine, one, key=attrgetter("order"))
            self.all = mine
            self._marked[one] = None
        self.changed()

    def remove(self, one: P) -> None:
        """It is no more."""
        one.among = None
        with self._lock:
            self.all = [other for other in self.all if other is not one]
            self._marked.pop(one, None)
        self.changed()

    def mark(self, one: P) -> None:
        """The next look has to look at it. Call after the change that gives it something."""
        with self._lock:
            if one.among is self:
                self._marked[one] = None

    def look(self, has_something: Callable[[P], bool], now: float) -> list[P]:
        """Those that have something. All others need no look until they are marked again.

        `now`: seconds since boot. `has_something` must not wait for anything.
        """
        with self._lock:
            # Judged under the lock: a mark that comes meanwhile is for the next look, and stays.
            if now >= self._at_all:
                self._at_all = now + LOOK_AT_ALL_S
                self._marked |= dict.fromkeys(self.all)
            self._marked = {one: None for one in self._marked if has_something(one)}
            return [*self._marked]

    def changed(self) -> None:
        """Something that is told has changed. Call after the change."""
        self._age = object()

    def told(self) -> AssignmentRows:
        """What the member is told."""
        age, known = self._age, self._told
        if known is None or known[0] is not age:
            # What changes from here on makes it old at once.
            rows = [row for one in self.all if (row := one.row()) is not None]
            known = self._told = (age, AssignmentRows(rows))
        return known[1]
