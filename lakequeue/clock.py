"""Time comes in as an argument: the clocks that processes use, and the hybrid logical clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from lakequeue.records import Stamp

Micros = int
"""Microseconds since 1970 UTC."""
WallClock = Callable[[], Micros]

MAX_SKEW_S = 5.0
"""A node whose clock is further off than this is not ready."""


def wall_micros() -> Micros:
    """The wall clock. It may step back; nothing but a stamp's lower bound comes from it."""
    return time.time_ns() // 1_000


def boot_seconds() -> float:
    """Seconds since boot, also counting time suspended: what a lease is trusted by."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def hour_of(micros: Micros) -> str:
    """The partition value of a time: `2013-01-31T07`, in UTC."""
    return datetime.fromtimestamp(micros / 1_000_000, UTC).strftime("%Y-%m-%dT%H")


class HybridClock:
    """Stamps that rise strictly, follow the wall clock, and never fall behind what was seen.

    Not thread-safe: the one committer of a shard owns it.
    """

    def __init__(self, wall: WallClock = wall_micros, at_least: int = 0) -> None:
        self._wall = wall
        self._last = at_least

    @property
    def last(self) -> Stamp:
        """The newest stamp given or observed."""
        return Stamp(self._last)

    def observe(self, stamp: int) -> None:
        """Later stamps will be above `stamp` (one carried in by a producer, or in a shard)."""
        self._last = max(self._last, stamp)

    def next(self) -> Stamp:
        """A stamp above all earlier ones."""
        self._last = max(self._wall(), self._last + 1)
        return Stamp(self._last)
