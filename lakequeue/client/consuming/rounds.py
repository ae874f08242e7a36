"""A round of exactly-once effects: what it needs of its consumer, and who runs it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from lakequeue.calling.driving import drive, finish
from lakequeue.client.consuming.fetch_buffer import OffsetRange
from lakequeue.results.restores import Restores

T = TypeVar("T")
Call = Callable[[], Any]
"""A call of the consumer or the producer: one for asyncio is awaited."""


@dataclass(frozen=True, slots=True)
class Blocking:
    """Work that blocks: asyncio runs it in a thread."""

    work: Callable[[], Any]


Round = Generator[Call | Blocking, Any, T]
"""How a round goes: it yields what is to be called, and is sent the result, or thrown the error."""


def run_round(steps: Round[T]) -> T:
    """Run a round of a blocking consumer to its end."""
    return finish(drive(steps, _ask, BaseException))


async def run_round_async(steps: Round[T]) -> T:
    """The same of a consumer for asyncio."""
    return await drive(steps, _ask_async, BaseException)


async def _ask(asked: Call | Blocking) -> Any:
    return asked.work() if isinstance(asked, Blocking) else asked()


async def _ask_async(asked: Call | Blocking) -> Any:
    return await (_in_thread(asked.work) if isinstance(asked, Blocking) else asked())


async def _in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread and wait until it ends, also when cancelled: the look at a handle and
    the commit from it must not have another's refresh of the same handle between them.
    """
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([running])
        raise


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
