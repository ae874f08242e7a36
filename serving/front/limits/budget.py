"""Bounds on memory: bytes that requests and answers share."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from lakequeue.errors import Overloaded

RETRY_AFTER_S = 0.5
"""A full budget of 64 MiB is committed in less, so a client that waits this long finds room."""


class Budget:
    """A number of bytes that requests share. Thread-safe; it never waits."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.refused = 0
        """How often there was not enough left."""
        self._lock = threading.Lock()

    def lease(self) -> Lease:
        """A share that grows by need and is given back at the end of the `with`."""
        return Lease(self)

    def holding(self, lease: Lease | None, size: int) -> Lease:
        """`lease`, or a new one, that holds `size` bytes. Raises `Overloaded`."""
        lease = self.lease() if lease is None else lease
        if size > lease.held:
            lease.grow(size - lease.held)
        lease.shrink_to(size)
        return lease

    def take(self, size: int) -> None:
        """Reserve `size` bytes. Raises `Overloaded` when they are not there."""
        with self._lock:
            if self.used + size > self.limit:
                self.refused += 1
                raise Overloaded(
                    f"{self.used} of {self.limit} bytes are in use, {size} more are needed",
                    hint="wait as long as Retry-After says, then send again",
                    stored="no",
                    retry_after_s=RETRY_AFTER_S,
                )
            self.used += size

    def count(self, size: int) -> None:
        """Count `size` bytes that are there already, whatever the limit."""
        with self._lock:
            self.used += size

    def give(self, size: int) -> None:
        """Give `size` bytes back."""
        with self._lock:
            self.used -= size


class Lease:
    """What one request holds of the budget."""

    __slots__ = ("_budget", "held")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.held = 0

    def grow(self, size: int) -> None:
        """Hold `size` bytes more. Raises `Overloaded`."""
        self._budget.take(size)
        self.held += size

    def become(self, size: int) -> None:
        """It came to `size` bytes, which are there: more than was held, or less."""
        self._budget.count(size - self.held)
        self.held = size

    def shrink_to(self, size: int) -> None:
        """Hold `size` bytes, unless it is less already."""
        if size < self.held:
            self._budget.give(self.held - size)
            self.held = size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shrink_to(0)
