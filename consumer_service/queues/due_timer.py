"""Wakes waiting polls when records become due: delayed ones, and those past their deadline."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import structlog

from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.queues.waiters import Waiters
from lakequeue.clock import wall_micros

log = structlog.get_logger()

LONGEST_S = 1.0
"""The wall clock may be set: it is looked at this often."""
AGAIN_S = 0.02
"""How soon waiting polls are woken again while something is due that nobody has taken."""


class DueTimer:
    """One thread for all queue partitions of a node."""

    def __init__(self, owned: Callable[[], Iterable[OwnedPartition]], waiters: Waiters) -> None:
        self._held = owned
        self._waiters = waiters
        self._sooner = threading.Event()
        self._stopping = threading.Event()
        self._next = 0
        self._thread = threading.Thread(target=self._run, name="due-timer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._sooner.set()
        if self._thread.is_alive():
            self._thread.join()

    def expect(self, due: int) -> None:
        """Something is due then (µs): earlier, perhaps, than the timer waits for."""
        if due < self._next:
            self._sooner.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._sooner.clear()
            # Until it is known better: what becomes due sooner while we look must be heard.
            self._next = wall_micros() + int(LONGEST_S * 1e6)
            try:
                pause_s = self._look()
            except Exception:
                # Without it nothing would ever be delivered again after a rest.
                log.exception("due_timer.failed")
                pause_s = LONGEST_S
            self._sooner.wait(pause_s)

    def _look(self) -> float:
        """Wake who waits for what is due; seconds until the next look."""
        now = wall_micros()
        next_due = now + int(LONGEST_S * 1e6)
        again = False
        for owned in self._held():
            with owned.lock:
                idle = owned.queue is None or owned.paused or not owned.delivers
                due = None if owned.queue is None or idle else owned.queue.next_due()
            if due is None:
                continue
            if due > now:
                next_due = min(next_due, due)
            elif self._waiters.news(owned.key.group):
                again = True
        self._next = next_due
        return AGAIN_S if again else max(0.0, (next_due - wall_micros()) / 1e6)
