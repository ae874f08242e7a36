"""What other threads hand to the loop leaves it time, and when a rush of calls is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from serving.front.mailbox import Mailbox, Rush


class Loop:
    """Rounds of a loop, one at a time."""

    def __init__(self) -> None:
        self._soon: list[Callable[[], object]] = []

    def call_soon(self, work: Callable[..., object], *given: Any) -> None:
        self._soon.append(lambda: work(*given))

    def round(self) -> None:
        now, self._soon = self._soon, []
        for work in now:
            work()


def test_a_rush_is_over_after_a_round_without_a_call() -> None:
    loop, told = Loop(), list[bool]()
    rush = Rush(told.append)
    for _ in range(5):
        rush.came(cast("asyncio.AbstractEventLoop", loop))
        rush.came(cast("asyncio.AbstractEventLoop", loop))
        loop.round()
    assert told == [True]
    loop.round()
    assert told == [True, False]
    loop.round()
    rush.came(cast("asyncio.AbstractEventLoop", loop))
    assert told == [True, False, True]


def test_thousands_of_letters_leave_the_loop_time_for_others_in_between() -> None:
    async def run() -> list[str]:
        loop, order = asyncio.get_running_loop(), list[str]()
        mailbox, done = Mailbox(loop), asyncio.Event()
        for _ in range(1_000):
            mailbox.post(lambda: order.append("letter"))
        mailbox.post(done.set)
        await asyncio.sleep(0)
        loop.call_soon(order.append, "other")
        await done.wait()
        return order

    order = asyncio.run(run())
    assert order.count("letter") == 1_000
    assert order.index("other") < 200


def test_a_letter_that_fails_keeps_no_other_waiting() -> None:
    async def run() -> None:
        loop, seen = asyncio.get_running_loop(), list[object]()
        loop.set_exception_handler(lambda _, said: seen.append(said["exception"]))
        mailbox, done = Mailbox(loop), asyncio.Event()
        failure = RuntimeError("it fails")

        def fails() -> None:
            raise failure

        mailbox.post(fails)
        mailbox.post(done.set)
        await asyncio.wait_for(done.wait(), 10)
        assert seen == [failure]

    asyncio.run(run())
