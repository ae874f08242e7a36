"""Looks at all groups, for advice about load: kept, so that the next call need not wait."""

from __future__ import annotations

import threading
from collections import deque

from consumer_service.calls.groups import Groups
from consumer_service.node import Node
from lakequeue.clock import boot_seconds
from lakequeue.wire import MAX_WAIT_MS, AdviceAnswer
from queue_rules.groups.advice import Look, Past, advise

_LOOKS = 4
"""In a range of offsets without earlier looks."""
APART_S = 5.0
"""Looks are kept so far apart: calls that follow each other quickly leave no more of them."""
LONGER_S = 60.0
"""A look may begin a range of offsets that is so much longer than was asked for. One from an hour
ago says little about now."""
_OLDEST_S = MAX_WAIT_MS / 1_000 + LONGER_S


class Looks:
    """The newest look, and what earlier ones said: about two dozen of them. Not thread-safe."""

    def __init__(self) -> None:
        self.newest: Look | None = None
        self._kept: deque[Past] = deque()
        """In the order of time, the newest included."""

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, look: Look) -> None:
        """The newest look; of those close together one stays."""
        if len(self._kept) > 1 and self._kept[-1].at_s - self._kept[-2].at_s < APART_S:
            self._kept.pop()
        self._kept.append(look.past())
        self.newest = look
        while self._kept[0].at_s < look.at_s - _OLDEST_S:
            self._kept.popleft()

    def before(self, over_s: float) -> Past | None:
        """What the newest look is compared with: the newest one that is `over_s` older, else the
        oldest of what is kept; None if there is none."""
        if self.newest is None:
            return None
        now = self.newest.at_s
        usable = [past for past in self._kept if now - over_s - LONGER_S < past.at_s < now]
        whole = [past for past in usable if past.at_s <= now - over_s]
        return whole[-1] if whole else next(iter(usable), None)

    def cover(self, over_s: float) -> bool:
        """Whether the last `over_s` seconds can be judged."""
        first = self.before(over_s)
        return (
            self.newest is not None
            and first is not None
            and (self.newest.at_s - first.at_s >= over_s)
        )


class Advising:
    """Thread-safe. A caller that comes regularly, as a monitor does, need not wait: the looks of
    its earlier calls are kept."""

    def __init__(self, node: Node, groups: Groups) -> None:
        self._node = node
        self._groups = groups
        self._looks = Looks()
        self._lock = threading.Lock()

    def advise(self, over_s: float) -> AdviceAnswer:
        """Judge the last `over_s` seconds; takes as long if nobody has looked before."""
        self._look()
        began = boot_seconds()
        while not self._covers(over_s):
            left = began + over_s - boot_seconds()
            if self._node.draining.wait(max(0.0, min(over_s / _LOOKS, left))):
                break
            self._look()
            if left <= 0:
                # A look that took long had come to its end only now.
                break
        with self._lock:
            first, last = self._looks.before(over_s), self._looks.newest
        return advise(first, last, self._node.settings.consumer.threads)

    def _covers(self, over_s: float) -> bool:
        with self._lock:
            return self._looks.cover(over_s)

    def _look(self) -> None:
        """Look now, unless another caller has while this one waited for it."""
        asked_at = boot_seconds()
        with self._lock:
            newest = self._looks.newest
            if newest is None or newest.at_s < asked_at:
                self._looks.add(Look(boot_seconds(), self._groups.describe_all()))
