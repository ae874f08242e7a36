"""`Consumer` and `AsyncConsumer`: the shells around `Consuming`."""

# longer than 400 lines: a third of them are docstrings of public methods.
from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Literal, Self, Unpack

from lakequeue.calling import asyncio_runner, blocking_runner
from lakequeue.client.consuming.consumer_base import ConsumerBase, ConsumerOptions
from lakequeue.client.consuming.fetch_buffer import OffsetRange
from lakequeue.client.consuming.transform import AsyncTransform, Transform
from lakequeue.client.message import Message
from lakequeue.client.messages import Messages
from lakequeue.client.producing.producer import AsyncProducer, Producer
from lakequeue.errors import (
    LakequeueError,
    MissingDependency,
)

if TYPE_CHECKING:
    from lakequeue.client.consuming.transaction import AsyncTransaction, ResultTable, Transaction

_log = logging.getLogger("lakequeue.consumer")
_CLOSE_TIMEOUT_S = 10.0
_LATE_ACKS = (
    "some acks came too late; those records will be delivered again, no action is needed: %s"
)


def _delta() -> ModuleType:
    """Loaded when it is asked for: most consumers need neither deltalake nor Arrow."""
    try:
        return import_module("lakequeue.client.consuming.transaction")
    except ImportError as error:
        raise MissingDependency(
            f"transactions need deltalake: {error}", hint="pip install 'lakequeue[delta]'"
        ) from error


class Consumer(ConsumerBase):
    """Receives records of one or more topics as a member of `group`.

    A consumer joins its group when it is first used. Iterating it waits for ever; `poll` waits
    for a given time. One thread iterates; any thread may call `ack`, `commit` and `stop`. It is a
    context manager: the end of `with` closes it.

    Args:
        topics: One topic or several.
        group: Name of the group. Its members share the work.
        **options: The options of `ConsumerOptions`.

    Raises:
        InvalidRequest: An option is not valid.

    Example:
        from lakequeue import Consumer

        with Consumer("orders", group="billing", from_="earliest") as consumer:
            for message in consumer.poll(timeout_s=5.0):
                print(message.key, message.value)
                message.ack()
            consumer.commit()
    """

    def __init__(
        self, topics: str | Sequence[str], group: str, **options: Unpack[ConsumerOptions]
    ) -> None:
        self._signal: blocking_runner.Signal | None = None
        super().__init__(topics, group, options)
        self._signal = blocking_runner.Signal(self._core.lock)
        self._http = blocking_runner.open_http(
            self._headers, self._core.nodes.urls, options.get("credentials")
        )
        self._fetcher: threading.Thread | None = None
        self._reconciler: threading.Thread | None = None
        self._closed = False

    def _notify(self) -> None:
        if self._signal is not None:
            self._signal.notify()

    def _start(self) -> blocking_runner.Signal:
        assert self._signal is not None  # noqa: S101 - set in __init__
        if self._fetcher is None:
            self._fetcher = self._thread("fetch")
            self._reconciler = self._thread("keep")
        return self._signal

    def _thread(self, name: Literal["fetch", "keep"]) -> threading.Thread:
        script = self._core.fetch() if name == "fetch" else self._core.keep()
        thread = threading.Thread(
            target=blocking_runner.run,
            args=(script, self._http, self._signal),
            name=f"lakequeue-{name}-{self.group}",
            daemon=True,
        )
        thread.start()
        return thread

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        self._core.iterates = self._core.is_worker
        signal = self._start()
        while True:
            message = self._core.next()
            if message is not None:
                return self._typed(message)
            if self._core.closing:
                raise StopIteration
            signal.wait_until(lambda: self._core.has_news, None)

    def poll(self, timeout_s: float = 1.0, max_records: int = 500) -> Messages:
        """Wait for records, and return those that are there.

        Args:
            timeout_s: How long to wait for the first record.
            max_records: How many records to return at most.

        Returns:
            The records: a list, with `to_arrow()` and `to_pandas()`. It is empty if none came in
            time, or after `stop`.

        Raises:
            UndecodableRecord: The group has `undecodable="stop"`, and such a record is next.
            LakequeueError: The first join failed, or the group does not let this consumer in.
        """
        self._start().wait_until(lambda: self._core.has_news, timeout_s)
        return self._ready(max_records)

    def take(self, timeout_s: float = 1.0, max_records: int = 500) -> OffsetRange | None:
        """Take the next records of one partition, for a result that has their positions.

        Args:
            timeout_s: How long to wait for the first record.
            max_records: How many records to take at most.

        Returns:
            The records and their range of offsets; None if none came in time.

        Raises:
            InvalidRequest: The group has a predicate. What it skips leaves gaps, and a range that
                counts with its result must have none.
        """
        self._core.go_gapless()
        self._start().wait_until(lambda: self._core.has_news, timeout_s)
        return self._taken(max_records)

    def transform(
        self,
        producer: Producer,
        to: str | None = None,
        *,
        timeout_s: float = 1.0,
        max_records: int = 500,
    ) -> Transform:
        """One round of consume, transform, produce: exactly once.

        It takes the next records of one partition. What you send in the block becomes visible
        together with the position, or neither does.

        Args:
            producer: Sends the results.
            to: Default topic of the results.
            timeout_s: How long to wait for the first record.
            max_records: How many records to take at most.

        Returns:
            A context manager with `messages` and `send`.

        Raises:
            InvalidRequest: The group has a predicate.
            ConsumedElsewhere: At the end of the block: another consumer has consumed the records.
        """
        return Transform(self, producer, to, self.take(timeout_s, max_records))

    def transaction(
        self,
        table: ResultTable,
        *,
        timeout_s: float = 1.0,
        max_records: int = 500,
        skip_gap: bool = False,
    ) -> Transaction:
        """One round of exactly-once results in a Delta table.

        It takes the next records of one partition that are not in the table's result yet.

        Args:
            table: A `deltalake.DeltaTable`, or its path.
            timeout_s: How long to wait for the first record.
            max_records: How many records to take at most.
            skip_gap: Go on if records between the table's position and the first one are gone.

        Returns:
            A context manager with `messages`, `append` and `commit_properties`.

        Raises:
            MissingDependency: The extra `lakequeue[delta]` is not installed.
            ResultBehind: Records that the table does not have yet are gone.
        """
        made: Transaction = _delta().Transaction(self, table, timeout_s, max_records, skip_gap)
        return made

    def rejoin(self, reason: str) -> None:
        """Leave the group and join it again. Unacknowledged records are delivered again.

        Args:
            reason: Stands in `Lost`, and in the status line.
        """
        if self._fetcher is None or self._signal is None or self._closed:
            return
        with self._core.lock:
            self._core.buffer.lose_all(reason)
        blocking_runner.run(self._core.leave(), self._http, self._signal)
        self._notify()

    def commit(self, timeout_s: float = 30.0) -> None:
        """Wait until every acknowledgement made so far is durable.

        Args:
            timeout_s: How long to wait.

        Raises:
            EpochSuperseded: One of them was refused, because its partition has a newer owner.
            AttemptSuperseded: Queue groups: another worker has one of the records.
            CoordinationUnavailable: There was no answer in time.
        """
        signal = self._start()
        with self._core.lock:
            number = self._core.buffer.queued
            self._core.committing += 1
        try:
            self._notify()
            settled = signal.wait_until(lambda: self._core.settled(number), timeout_s)
        finally:
            with self._core.lock:
                self._core.committing -= 1
        self._raise_refusal(settled)

    def close(self) -> None:
        """Send the acknowledgements, leave the group, and stop.

        Acknowledgements that come too late are logged, not raised; their records are delivered
        again. To be sure, call `commit` first.
        """
        if self._closed:
            return
        self._closed = True
        self._core.stop()
        try:
            if self._fetcher is not None and self._core.error is None:
                self.commit(_CLOSE_TIMEOUT_S)
        except LakequeueError as error:
            _log.warning(_LATE_ACKS, error)
        finally:
            self._core.end()
            if self._signal is not None:
                blocking_runner.run(self._core.leave(), self._http, self._signal)
            # A poll that is still parked is abandoned: its thread ends with its answer.
            for thread in (self._reconciler, self._fetcher):
                if thread is not None and thread is not threading.current_thread():
                    thread.join(timeout=0.5)
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()


class AsyncConsumer(ConsumerBase):
    """The same from asyncio, within one event loop: `async for message in consumer`."""

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

    def _start(self) -> asyncio_runner.AsyncSignal:
        if not self._tasks:
            self._tasks = [
                asyncio.create_task(asyncio_runner.run(script, self._http, self._signal))
                for script in (self._core.fetch(), self._core.keep())
            ]
        return self._signal

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        self._core.iterates = self._core.is_worker
        signal = self._start()
        while True:
            message = self._core.next()
            if message is not None:
                return self._typed(message)
            if self._core.closing:
                raise StopAsyncIteration
            await signal.wait_until(lambda: self._core.has_news, None)

    async def poll(self, timeout_s: float = 1.0, max_records: int = 500) -> Messages:
        """Up to `max_records` records; empty when none came within `timeout_s`, or at the end."""
        await self._start().wait_until(lambda: self._core.has_news, timeout_s)
        return self._ready(max_records)

    async def take(self, timeout_s: float = 1.0, max_records: int = 500) -> OffsetRange | None:
        """As `Consumer.take`."""
        self._core.go_gapless()
        await self._start().wait_until(lambda: self._core.has_news, timeout_s)
        return self._taken(max_records)

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
        made: AsyncTransaction = _delta().AsyncTransaction(
            self, table, timeout_s, max_records, skip_gap
        )
        return made

    async def rejoin(self, reason: str) -> None:
        """As `Consumer.rejoin`."""
        if not self._tasks or self._closed:
            return
        self._core.buffer.lose_all(reason)
        await asyncio_runner.run(self._core.leave(), self._http, self._signal)
        self._notify()

    async def commit(self, timeout_s: float = 30.0) -> None:
        """As `Consumer.commit`."""
        signal = self._start()
        number = self._core.buffer.queued
        self._core.committing += 1
        try:
            self._notify()
            settled = await signal.wait_until(lambda: self._core.settled(number), timeout_s)
        finally:
            self._core.committing -= 1
        self._raise_refusal(settled)

    async def close(self) -> None:
        """Send what is acknowledged, leave the group, stop.

        Acknowledgements that come too late are logged, not raised: their records are delivered
        again. Call `commit` before to know.
        """
        if self._closed:
            return
        self._closed = True
        self._core.stop()
        try:
            if self._tasks and self._core.error is None:
                await self.commit(_CLOSE_TIMEOUT_S)
        except LakequeueError as error:
            _log.warning(_LATE_ACKS, error)
        finally:
            self._core.end()
            await asyncio_runner.run(self._core.leave(), self._http, self._signal)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await self.close()
