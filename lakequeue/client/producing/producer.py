"""`Producer` and `AsyncProducer`: the shells around `Sender`."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, TypeVar, Unpack

from lakequeue.calling import asyncio_runner, blocking_runner, forks
from lakequeue.calling.addresses import Urls, ingest_urls
from lakequeue.calling.closing import AsyncCloses, Closes
from lakequeue.calling.effects import Script
from lakequeue.client.producing import unclosed
from lakequeue.client.producing.atomic import AsyncAtomic, Atomic
from lakequeue.client.producing.handles import Handle
from lakequeue.client.producing.outgoing import Outgoing, RecordMetadata
from lakequeue.client.producing.producer_base import ProducerBase, ProducerOptions
from lakequeue.client.producing.record_options import RecordOptions
from lakequeue.errors import LakequeueError, NotReady
from lakequeue.option_help import options_in_help
from lakequeue.wire import Consumed

T = TypeVar("T")


@options_in_help(ProducerOptions)
class Producer(ProducerBase, Closes):
    """Sends records to one or more ingest nodes.

    Calls block. A producer is thread-safe, and a context manager: the end of `with` flushes and
    closes it.

    Args:
        urls: One or several ingest nodes. The producer finds the others by itself. None: those of
            the settings (`LAKEQUEUE_INGEST__URL`, lakequeue.toml), of a queue that runs on this
            machine, or port 8080.
        **options: The options of `ProducerOptions`.

    Raises:
        InvalidRequest: An option is not valid.

    Example:
        from lakequeue import Producer

        with Producer() as producer:
            handle = producer.send("orders", {"total": 12.5}, key="customer-7")
            print(handle.result(timeout=10).partition)
    """

    def __init__(self, urls: Urls | None = None, **options: Unpack[ProducerOptions]) -> None:
        self._signal: blocking_runner.Signal | None = None
        super().__init__(ingest_urls(urls), options)
        self._signal = blocking_runner.Signal(self._core.lock)
        self._http = blocking_runner.open_http(
            {}, self._core.nodes.urls, options.get("credentials")
        )
        self._threads: list[threading.Thread] = []
        self._beginning = threading.Lock()

    def _notify(self) -> None:
        if self._signal is not None:
            self._signal.notify()

    def _run(self, script: Script[T]) -> T:
        assert self._signal is not None  # noqa: S101 - set in __init__
        return blocking_runner.run(script, self._http, self._signal)

    def init(self) -> int:
        """Begin an epoch of a producer with `fence=True`. The first `send` does so, too.

        After this call, nothing of an older instance of this producer is ordered any more.

        Returns:
            The epoch.

        Raises:
            ProducerFenced: A newer instance has begun.
        """
        forks.check_process(self._core.made_in)
        with self._beginning:
            if self._core.epoch is None:
                self._run(self._core.begin())
        return self._core.epoch or 0

    @options_in_help(RecordOptions)
    def send(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        **options: Unpack[RecordOptions],
    ) -> Future[RecordMetadata]:
        """Queue one record. It is sent in the background.

        The call waits only while the buffer is full.

        Args:
            topic: Name of a topic that exists.
            value: Text, bytes, or anything that JSON can hold. Consumers get it back alike.
            key: The same as `value`. Records of one key go to one partition, in order.
            **options: `headers`, `partition`, `timestamp`, `message_id`, `delay_s`, `deliver_at`,
                `ttl_s`: see `RecordOptions`.

        Returns:
            A future. Its result is the `RecordMetadata` of the acknowledged record.

        Raises:
            InvalidRequest: An argument is not valid.
            TooLarge: The record is larger than a request may be.
            Overloaded: The buffer stayed full for `max_block_s`.
        """
        core = self._core
        record = core.prepare(topic, value, key, made=Handle, **options)
        if core.fence and core.epoch is None:
            self.init()
        ledger, size = core.ledger, record.size
        # The lock is held over both, so that another thread cannot take the room.
        with core.lock:
            if not ledger.has_room(size) and not self._wait(
                lambda: ledger.has_room(size), self._max_block_s
            ):
                raise ledger.no_room()
            fresh = core.queue(record)
            if fresh is not None:
                script = core.deliver(fresh)
                thread = threading.Thread(
                    target=blocking_runner.run,
                    args=(script, self._http, self._signal),
                    name=f"lakequeue-producer-{topic}",
                    daemon=True,
                )
                self._threads.append(thread)
                thread.start()
                assert self._signal is not None  # noqa: S101 - set in __init__
                unclosed.opened(core, self._signal)
        return record

    def produce_whole(
        self, records: Sequence[Outgoing], consumed: Consumed | None = None
    ) -> list[RecordMetadata]:
        """Send prepared records in one request, all or none, and wait until they are ordered.

        `atomic` and `Consumer.transform` are easier to use.

        Args:
            records: Records from `prepare`.
            consumed: The records of other topics that are consumed by this request.

        Returns:
            The metadata of each record, in the same order.

        Raises:
            ConsumedElsewhere: Another consumer has consumed some of them already.
            ProducerFenced: A newer instance of this producer has begun.
            NotOrdered: The request was refused. After any other error it is not known whether the
                records count.
        """
        if self._core.fence and self._core.epoch is None:
            self.init()
        return self._run(self._core.produce_whole(records, consumed))

    def atomic(self) -> Atomic:
        """Records that become visible together, or not at all, over topics and partitions.

        Returns:
            A context manager with `send`. Its end waits until the records are ordered.
        """
        return Atomic(self)

    def _wait(self, until: Any, timeout_s: float | None) -> bool:
        assert self._signal is not None  # noqa: S101 - set in __init__
        return self._signal.wait_until(until, timeout_s)

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until every record sent so far is acknowledged or has failed.

        Args:
            timeout_s: How long to wait; None waits as long as it takes.

        Raises:
            LakequeueError: The error of the first record that failed since the last flush.
            OrderTimeout: Some records are not acknowledged yet.
        """
        self._run(self._flushed(timeout_s))

    def close(self, timeout_s: float | None = None) -> None:
        """Flush, then stop. Records that are not acknowledged in time fail.

        Args:
            timeout_s: How long to wait for the flush; None waits as long as it takes.

        Raises:
            LakequeueError: The error of the first record that failed since the last flush.
        """
        if self._core.closed or forks.is_parents(self._core.made_in):
            return  # what a forked child has of it is its parent's
        # First: a flush would wait for ever for threads that go on sending.
        self._core.close()
        try:
            self.flush(timeout_s)
        finally:
            unclosed.closed(self._core)
            if len(self._core.ledger):
                self._core.abort()
            for thread in self._threads:
                if thread is not threading.current_thread():
                    thread.join(timeout=1.0)
            self._http.close()

    def _left(self, error: BaseException | None) -> None:
        if error is None:
            self.close()
            return
        # The block has failed already: its error is the one to see, not ours.
        with contextlib.suppress(LakequeueError):
            self.close(timeout_s=1.0)


@options_in_help(ProducerOptions)
class AsyncProducer(ProducerBase, AsyncCloses):
    """The same from asyncio, within one event loop."""

    def __init__(self, urls: Urls | None = None, **options: Unpack[ProducerOptions]) -> None:
        self._signal = asyncio_runner.AsyncSignal()
        super().__init__(ingest_urls(urls), options)
        self._http = asyncio_runner.open_http({}, self._core.nodes.urls, options.get("credentials"))
        self._tasks: list[asyncio.Task[None]] = []
        self._lost = 0
        self._beginning = asyncio.Lock()

    def _notify(self) -> None:
        self._signal.notify()

    async def _run(self, script: Script[T]) -> T:
        return await asyncio_runner.run(script, self._http, self._signal)

    async def init(self) -> int:
        """As `Producer.init`."""
        async with self._beginning:
            if self._core.epoch is None:
                await self._run(self._core.begin())
        return self._core.epoch or 0

    @options_in_help(RecordOptions)
    async def send(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        **options: Unpack[RecordOptions],
    ) -> asyncio.Future[RecordMetadata]:
        """Queue one record, waiting only while the buffer is full; await what is returned for its
        `RecordMetadata`: `await (await p.send(…))`, or later."""
        record: Outgoing = self._core.prepare(topic, value, key, **options)
        if self._core.fence and self._core.epoch is None:
            await self.init()
        handle: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        # Whoever does not await it learns of an error from on_error, flush or unacked.
        handle.add_done_callback(lambda f: f.cancelled() or f.exception())
        record.handle = handle
        ledger, size = self._core.ledger, record.size
        if not ledger.has_room(size) and not await self._signal.wait_until(
            lambda: ledger.has_room(size), self._max_block_s
        ):
            raise ledger.no_room()
        fresh = self._core.queue(record)
        if fresh is not None:
            script = self._core.deliver(fresh)
            task = asyncio.create_task(asyncio_runner.run(script, self._http, self._signal))
            task.add_done_callback(self._ended)
            self._tasks.append(task)
        return handle

    def _ended(self, task: asyncio.Task[None]) -> None:
        """The loop ends, and cancels what runs: nobody sends what is left."""
        if task.cancelled() and not self._core.closed and not self._lost:
            self._lost = len(self._core.ledger)
            if self._lost:
                unclosed.say_lost(self._lost)

    async def produce_whole(
        self, records: Sequence[Outgoing], consumed: Consumed | None = None
    ) -> list[RecordMetadata]:
        """As `Producer.produce_whole`."""
        if self._core.fence and self._core.epoch is None:
            await self.init()
        return await self._run(self._core.produce_whole(records, consumed))

    def atomic(self) -> AsyncAtomic:
        """As `Producer.atomic`: `async with producer.atomic() as batch: batch.send(…)`."""
        return AsyncAtomic(self)

    async def flush(self, timeout_s: float | None = None) -> None:
        """Wait until every record sent so far is acknowledged or given up.

        Raises the error of the first record given up since the last flush.
        """
        await self._run(self._flushed(timeout_s))

    async def close(self, timeout_s: float | None = None) -> None:
        """Flush, then stop. What is not acknowledged in time is given up."""
        if self._core.closed or forks.is_parents(self._core.made_in):
            return  # what a forked child has of it is its parent's
        self._core.close()
        try:
            await self.flush(timeout_s)
        finally:
            if len(self._core.ledger):
                self._core.abort()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=1.0)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._core.give_up_rest(
                NotReady(
                    "the producer was closed before the record was acknowledged",
                    hint="close it without a timeout, or send the record again by its message_id",
                    stored="unknown",
                )
            )
            await self._http.aclose()

    async def _left(self, error: BaseException | None) -> None:
        if error is None:
            await self.close()
            return
        with contextlib.suppress(LakequeueError):
            await self.close(timeout_s=1.0)
