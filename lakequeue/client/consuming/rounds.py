"""What a round of exactly-once effects needs of its consumer."""

from __future__ import annotations

from typing import Protocol

from lakequeue.client.consuming.fetch_buffer import OffsetRange
from lakequeue.results.restores import Restores


class Remembers(Protocol):
    """A consumer remembers which result tables were restored."""

    @property
    def restores(self) -> dict[str, Restores]:
        """By table."""


class Takes(Remembers, Protocol):
    """A consumer that hands out the next records of one partition. Blocking."""

    def take(self, timeout_s: float, max_records: int) -> OffsetRange | None:
        """None when none came in time."""

    def rejoin(self, reason: str) -> None:
        """Give everything back and join again: unacknowledged records are delivered again."""


class AsyncTakes(Remembers, Protocol):
    """The same for asyncio."""

    async def take(self, timeout_s: float, max_records: int) -> OffsetRange | None:
        """None when none came in time."""

    async def rejoin(self, reason: str) -> None:
        """Give everything back and join again: unacknowledged records are delivered again."""
