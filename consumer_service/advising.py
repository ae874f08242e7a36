"""Looks at all groups, for advice about load: kept, so that the next call need not wait."""

from __future__ import annotations

import threading
from collections import deque

from consumer_service.groups import Groups
from consumer_service.node import Node
from lakequeue.advice import Look, advise
from lakequeue.clock import boot_seconds
from lakequeue.errors import UnknownGroup
from lakequeue.wire import AdviceAnswer

_LOOKS = 4
"""In a stretch without earlier looks."""
_KEPT = 240


class Advising:
    """Thread-safe. A caller that comes regularly, as a monitor does, need not wait: the looks of
    its earlier calls are kept."""

    def __init__(self, node: Node, groups: Groups) -> None:
        self._node = node
        self._groups = groups
        self._looks: deque[Look] = deque(maxlen=_KEPT)
        self._looking = threading.Lock()

    def advise(self, over_s: float) -> AdviceAnswer:
        """Judge the last `over_s` seconds; takes as long if nobody has looked before."""
        self._look()
        began = boot_seconds()
        while not self._covers(over_s) and boot_seconds() < began + over_s:
            left = began + over_s - boot_seconds()
            if self._node.draining.wait(min(over_s / _LOOKS, left)):
                break
            self._look()
        return advise(self._since(over_s), self._node.settings.consumer.threads)

    def _covers(self, over_s: float) -> bool:
        stretch = self._since(over_s)
        return stretch[-1].at_s - stretch[0].at_s >= over_s

    def _since(self, over_s: float) -> list[Look]:
        """The looks of the stretch: the newest that is old enough to begin it, and all later."""
        with self._looking:
            looks = list(self._looks)
        start = looks[-1].at_s - over_s
        earlier = [number for number, look in enumerate(looks) if look.at_s <= start]
        # One from an hour ago says little about now.
        begin = earlier[-1] if earlier and looks[earlier[-1]].at_s > start - over_s else None
        return looks[begin:] if begin is not None else [lk for lk in looks if lk.at_s > start]

    def _look(self) -> None:
        with self._looking:
            at_s = boot_seconds()
            described = []
            for summary in self._groups.list().groups:
                try:
                    described.append(self._groups.describe(summary.group))
                except UnknownGroup:
                    # Deleted between the list and the look.
                    continue
            self._looks.append(Look(at_s, described))
