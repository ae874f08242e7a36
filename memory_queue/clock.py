"""The clock of an in-memory queue: it runs like the wall clock, and can be put forward."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from lakequeue.clock import Micros, wall_micros
from lakequeue.errors import InvalidRequest


class Clock:
    """What the queue takes as the time: of arrivals, delays, times to live, visibility, windows.

    `advance` is time in which nobody does anything: nothing is renewed meanwhile, so what a worker
    holds for less than that goes to another. Consumers are not taken for gone: see
    `MemoryQueue.expire`.
    """

    def __init__(self, on_advance: Callable[[], None] = lambda: None) -> None:
        self._ahead: Micros = 0
        self._on_advance = on_advance

    def micros(self) -> Micros:
        """Now, as records have it.

        Returns:
            Microseconds since 1970 UTC.
        """
        return wall_micros() + self._ahead

    def now(self) -> datetime:
        """Now, as a datetime.

        Returns:
            A datetime in UTC.
        """
        return datetime.fromtimestamp(self.micros() / 1_000_000, UTC)

    def advance(self, seconds: float | timedelta) -> None:
        """Put the clock forward.

        Args:
            seconds: How far; a number of seconds, or a `timedelta`.

        Raises:
            InvalidRequest: The time is negative.
        """
        span = seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)
        if span < timedelta():
            raise InvalidRequest(f"a clock cannot go back by {-span}", hint="seconds, 0 or more")
        self._ahead += span // timedelta(microseconds=1)
        self._on_advance()
