"""Who waits for records of a queue group, served in turn: one is woken for each piece of news.

Whoever is woken and finds that more is left wakes the next; so a record does not wake two hundred
workers, and the one that has waited longest comes first.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager


class Waiters:
    """The polls of all queue groups of a node. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, OrderedDict[threading.Event, None]] = {}
        self._asking: dict[str, Counter[str]] = {}
        """Group → members whose polls are being served."""

    @contextmanager
    def asking(self, group: str, wake: threading.Event, member: str = "") -> Iterator[None]:
        """While a poll of this group is served."""
        with self._lock:
            self._asking.setdefault(group, Counter())[member] += 1
        try:
            yield
        finally:
            with self._lock:
                asking = self._asking[group]
                asking[member] -= 1
                if not asking[member]:
                    del asking[member]
                if not asking:
                    del self._asking[group]
            if not self.leave(group, wake):
                # News for this poll that it has not used belong to the next.
                self.news(group)

    def count(self, group: str) -> int:
        """How many polls of the group are being served."""
        with self._lock:
            return sum(self._asking.get(group, Counter()).values())

    def members(self, group: str) -> set[str]:
        """Whose polls these are."""
        with self._lock:
            return set(self._asking.get(group, ()))

    def enter(self, group: str, wake: threading.Event) -> None:
        """Stand in line; before the look, so that no news is missed between look and wait."""
        with self._lock:
            wake.clear()
            self._queues.setdefault(group, OrderedDict()).setdefault(wake)

    def leave(self, group: str, wake: threading.Event) -> bool:
        """Stand there no more; False if it had been woken already."""
        with self._lock:
            queue = self._queues.get(group)
            if queue is None or wake not in queue:
                return False
            del queue[wake]
            if not queue:
                del self._queues[group]
            return True

    def news(self, group: str) -> bool:
        """Something can be delivered: wake who has waited longest; False if nobody waits."""
        with self._lock:
            queue = self._queues.get(group)
            if queue is None:
                return False
            wake, _ = queue.popitem(last=False)
            if not queue:
                del self._queues[group]
            wake.set()
            return True

    def waits(self, group: str) -> bool:
        """Whether anybody stands in line."""
        return group in self._queues
