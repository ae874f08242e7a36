"""Who waits for records of a queue group, served in turn: one is woken for each piece of news.

Whoever is woken and finds that more is left wakes the next; so a record does not wake two hundred
workers, and the one that has waited longest comes first. Whoever holds as much as it may stands
behind all others: it would only look, and sleep again.
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
        self._full: dict[str, OrderedDict[threading.Event, None]] = {}
        """Those that hold as much as they may."""
        self._asking: dict[str, Counter[str]] = {}
        """Group → members whose polls are being served."""

    @contextmanager
    def asking(self, group: str, wake: threading.Event, member: str = "") -> Iterator[None]:
        """While a poll of this group is served."""
        with self._lock:
            if (asking := self._asking.get(group)) is None:
                asking = self._asking[group] = Counter()
            asking[member] += 1
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
            _remove(self._full, group, wake)
            self._queues.setdefault(group, OrderedDict()).setdefault(wake)

    def stand_back(self, group: str, wake: threading.Event) -> None:
        """It holds as much as it may: others come first. Not if it was woken meanwhile."""
        with self._lock:
            if _remove(self._queues, group, wake):
                self._full.setdefault(group, OrderedDict()).setdefault(wake)

    def leave(self, group: str, wake: threading.Event) -> bool:
        """Stand there no more; False if it had been woken already."""
        with self._lock:
            return _remove(self._queues, group, wake) or _remove(self._full, group, wake)

    def news(self, group: str, *, of_full: bool = False) -> bool:
        """Something can be delivered: wake who has waited longest; False if nobody waits.

        `of_full`: passed on by somebody who holds as much as it may, to nobody who does so too.
        Else two of them would wake each other for as long as something is there.
        """
        with self._lock:
            lines = (self._queues,) if of_full else (self._queues, self._full)
            for line in lines:
                if queue := line.get(group):
                    wake = next(iter(queue))
                    _remove(line, group, wake)
                    wake.set()
                    return True
            return False

    def waits(self, group: str) -> bool:
        """Whether anybody stands in line."""
        return group in self._queues or group in self._full


def _remove(
    line: dict[str, OrderedDict[threading.Event, None]], group: str, wake: threading.Event
) -> bool:
    """Whether it was there."""
    queue = line.get(group)
    if queue is None or wake not in queue:
        return False
    del queue[wake]
    if not queue:
        del line[group]
    return True
