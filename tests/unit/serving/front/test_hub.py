"""Connections that run out of time together are ended in turn with everything else."""

from __future__ import annotations

import asyncio

from serving.front.hub import Hub, Limits
from serving.front.limits.budget import Budget
from serving.front.limits.shares import Share

LIMITS = Limits(10_000, 10_000, 10.0, 75.0, 10.0, 16_384.0, 10.0, 65_536.0)
MANY = 500


class Late:
    """A connection whose deadline is over."""

    idle = True
    address = ""
    opened_at = 0.0

    def __init__(self, ended: list[int], rounds: list[int]) -> None:
        self.due = 0.0
        self.slot: int | None = None
        self._ended = ended
        self._rounds = rounds

    def expired(self, _now: float) -> None:
        self._ended.append(self._rounds[0])

    def stalls(self, _share: Share, _now: float) -> bool:
        return False

    def let_go(self) -> None:
        """Never asked."""

    def drain(self) -> None:
        """Never asked."""

    def drop(self) -> None:
        """Never asked."""


def test_those_that_run_out_of_time_together_leave_the_loop_to_others_in_between() -> None:
    ended: list[int] = []
    rounds = [0]

    async def run() -> None:
        loop = asyncio.get_running_loop()
        hub = Hub(lambda *_: [], [], LIMITS, Budget(1), ("", 0), loop)
        for _ in range(MANY):
            hub.wheel.put(Late(ended, rounds), hub.now() - 1.0)
        hub.tick()
        hub.tick()
        while len(ended) < MANY:
            rounds[0] += 1
            await asyncio.sleep(0)

    asyncio.run(run())
    assert len(ended) == MANY, "each once"
    at_once = max(ended.count(one) for one in set(ended))
    assert at_once <= 4
    assert len(set(ended)) >= MANY / at_once, "the loop had a turn between any two of those"


def test_a_connection_that_hears_something_while_it_waits_to_be_ended_is_not() -> None:
    ended: list[int] = []

    async def run() -> None:
        hub = Hub(lambda *_: [], [], LIMITS, Budget(1), ("", 0), asyncio.get_running_loop())
        late = [Late(ended, [0]) for _ in range(20)]
        for one in late:
            hub.wheel.put(one, hub.now() - 1.0)
        hub.tick()
        done = len(ended)
        for one in late:
            hub.wheel.put(one, hub.now() + 60.0)
        while hub.overdue:
            await asyncio.sleep(0)
        assert len(ended) == done < len(late)

    asyncio.run(run())
