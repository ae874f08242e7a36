"""A script that is interrupted undoes what it has begun, at once, with either runner."""

from __future__ import annotations

import asyncio

import pytest

from lakequeue.calling import asyncio_runner, blocking_runner
from lakequeue.calling.effects import Script, Wait

URL = ["http://127.0.0.1:9"]


def waiting(undone: list[str], wait: Wait) -> Script[None]:
    try:
        yield wait
    finally:
        undone.append("undone")


def test_a_blocking_script_undoes_when_it_is_interrupted() -> None:
    def interrupt() -> bool:
        raise KeyboardInterrupt

    undone: list[str] = []
    script = waiting(undone, Wait(interrupt, None))
    with (
        blocking_runner.open_http({}, URL) as http,
        pytest.raises(KeyboardInterrupt),
    ):
        blocking_runner.run(script, http, blocking_runner.new_signal())
    assert undone == ["undone"]


def test_an_asyncio_script_undoes_when_its_task_is_cancelled() -> None:
    undone: list[str] = []
    script = waiting(undone, Wait(lambda: False, None))

    async def cancelled() -> None:
        async with asyncio_runner.open_http({}, URL) as http:
            task = asyncio.create_task(
                asyncio_runner.run(script, http, asyncio_runner.AsyncSignal())
            )
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert undone == ["undone"]

    asyncio.run(cancelled())
