"""`AsyncConsumer`: the shell around `Consuming` for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self, TypeVar, Unpack

from lakequeue.calling import asyncio_runner, forks
from lakequeue.calling.closing import AsyncCloses
from lakequeue.calling.effects import Script
from lakequeue.client.consuming.consumer_base import ConsumerBase, ConsumerOptions, delta_module
from lakequeue.client.consuming.fetch_buffer import OffsetRange
from lakequeue.client.consuming.transform import AsyncTransform
from lakequeue.client.message import Message
from lakequeue.client.messages import Messages
from lakequeue.client.producing.producer import AsyncProducer
from lakequeue.option_help import options_in_help

if TYPE_CHECKING:
    from lakequeue.client.consuming.transaction import AsyncTransaction, ResultTable

T = TypeVar("T")


@options_in_help(ConsumerOptions)
class AsyncConsumer(ConsumerBase, AsyncCloses):
    """`Consumer` from asyncio, within one event loop: `async for message in consumer`."""

    def __init__(
        self, topics: str | Sequence[str], group: str, **options: Unpack[ConsumerOptions]
    ) -> None:
        self._signal = asyncio_runner.AsyncSignal()
        super().__init__(topics, group, options)
        self._http = asyncio_runner.open_http(
            self._headers, self._core.nodes.urls, options.get("credentials")
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False

    def _notify(self) -> None:
        self._signal.notify()

    def _start(self) -> None:
        forks.check_process(self._core.made_in)
        if not self._tasks:
            self._tasks = [
                asyncio.create_task(asyncio_runner.run(script, self._http, self._signal))
                for script in (self._core.fetch(), self._core.keep())
            ]

    async def _run(self, script: Script[T]) -> T:
        return await asyncio_runner.run(script, self._http, self._signal)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        self._core.iterates = self._core.is_worker
        self._start()
        message = self._core.next()
        if message is None:
            message = await self._run(self._waited())
        if message is None:
            raise StopAsyncIteration
        return self._typed(message)

    async def poll(self, timeout_s: float = 1.0, max_records: int = 500) -> Messages:
        """Up to `max_records` records; empty when none came within `timeout_s`, or at the end."""
        self._start()
        return await self._run(self._polled(timeout_s, max_records))

    async def take(self, timeout_s: float = 1.0, max_records: int = 500) -> OffsetRange | None:
        """As `Consumer.take`."""
        self._core.go_gapless()
        self._start()
        return await self._run(self._range_taken(timeout_s, max_records))

    def transform(
        self,
        producer: AsyncProducer,
        to: str | None = None,
        *,
        timeout_s: float = 1.0,
        max_records: int = 500,
    ) -> AsyncTransform:
        """As `Consumer.transform`: `async with consumer.transform(producer, "out") as tx`."""
        return AsyncTransform(self, producer, to, timeout_s, max_records)

    def transaction(
        self,
        table: ResultTable,
        *,
        timeout_s: float = 1.0,
        max_records: int = 500,
        skip_gap: bool = False,
    ) -> AsyncTransaction:
        """As `Consumer.transaction`: `async with consumer.transaction(table) as tx`.

        The commit of what is appended runs in a thread; an operation of your own on `tx.table`
        blocks, so run it by `asyncio.to_thread`.
        """
        made: AsyncTransaction = delta_module().AsyncTransaction(
            self, table, timeout_s, max_records, skip_gap
        )
        return made

    async def rejoin(self, reason: str) -> None:
        """As `Consumer.rejoin`."""
        if self._tasks and not self._closed:
            await self._run(self._rejoined(reason))

    async def commit(self, timeout_s: float = 30.0) -> None:
        """As `Consumer.commit`."""
        self._start()
        self._warn_of_no_acks()
        await self._run(self._committed(timeout_s))

    async def close(self) -> None:
        """Send what is acknowledged, leave the group, stop.

        Acknowledgements that come too late are logged, not raised: their records are delivered
        again. Call `commit` before to know.
        """
        if self._closed or forks.is_parents(self._core.made_in):
            return  # what a forked child has of it is its parent's
        self._closed = True
        self._core.stop()
        try:
            if self._tasks:
                await self._run(self._last_acks_sent())
        finally:
            self._core.end()
            await self._run(self._core.leave())
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._http.aclose()
