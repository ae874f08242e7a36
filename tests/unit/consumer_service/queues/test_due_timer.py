"""The timer hears of what becomes due while it looks."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.queues.due_timer import LONGEST_S, DueTimer
from consumer_service.queues.waiters import Waiters
from lakequeue.clock import boot_seconds, wall_micros


def test_what_becomes_due_during_a_look_is_not_slept_through() -> None:
    looks: list[float] = []
    second = threading.Event()

    def owned() -> Iterable[OwnedPartition]:
        looks.append(boot_seconds())
        if len(looks) == 1:
            timer.expect(wall_micros() + 1_000)  # in a partition that was looked at already
        else:
            second.set()
        return []

    timer = DueTimer(owned, Waiters())
    timer.start()
    assert second.wait(10)
    timer.stop()
    assert looks[1] - looks[0] < LONGEST_S / 2
