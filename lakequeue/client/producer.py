"""`Producer` and `AsyncProducer`: the shells around `Delivering`."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

from lakequeue.client import drive, drive_async
from lakequeue.client.atomic import Atomic
from lakequeue.client.calls import Nodes
from lakequeue.client.delivering import Acks, Delivering, OnAck, OnError
from lakequeue.client.outbox import Delivered, HeadersIn, Limits, Outgoing, timing_of
from lakequeue.errors import InvalidRequest, LakequeueError, OrderTimeout
from lakequeue.wire import DEFAULT_INGEST_URL, Consumed


class ProducerOptions(TypedDict, total=False):
    """Options of both producers."""

    acks: Acks
    """"committed" (default): durable; partition and stamp are known. "ordered": offset too."""
    linger_ms: float
    """How long a batch waits for more records; 5."""
    batch_size: int
    """Most records in one request; 500."""
    batch_bytes: int
    """Most bytes in one request; 4 MiB."""
    producer_id: str
    """Record i of a topic gets the message id `producer_id:i`, the same for every retry. Random
    by default, so that a restarted program starts anew; a fixed one needs `message_id`s too."""
    fence: bool
    """One instance of `producer_id` at a time: starting this one shuts older ones out, wherever
    they are, and it goes on where they stopped (`next_sequence`). Needs a `producer_id` that stays
    the same, named after the producer's task; answers come when the records are ordered."""
    delivery_timeout_s: float
    """A record that is not acknowledged by then is given up; 120."""
    max_buffered_bytes: int
    """`send` waits while so much is on its way; 32 MiB."""
    max_block_s: float
    """Longest such wait, then `Overloaded`; 60."""
    on_ack: OnAck | None
    """Called as (record, delivered), where the sending is done: keep it short."""
    on_error: OnError | None
    """Called as (record, error) for each record given up."""


class _Base(ABC):
    """What both producers have in common."""

    def __init__(self, urls: str | Sequence[str], options: ProducerOptions) -> None:
        fence = options.get("fence", False)
        if fence and not options.get("producer_id"):
            raise InvalidRequest(
                "fence needs a producer_id",
                hint="a name that stays the same when the program starts again",
                field="producer_id",
            )
        self._max_block_s = options.get("max_block_s", 60.0)
        self._core = Delivering(
            Nodes(urls),
            options.get("producer_id") or uuid.uuid4().hex,
            options.get("acks", "committed"),
            Limits(
                options.get("batch_size", 500),
                options.get("batch_bytes", 4 << 20),
                options.get("linger_ms", 5.0) / 1000,
                options.get("max_buffered_bytes", 32 << 20),
            ),
            options.get("delivery_timeout_s", 120.0),
            time.monotonic,
            self._ring,
            options.get("on_ack"),
            options.get("on_error"),
            fence,
        )

    @abstractmethod
    def _ring(self) -> None:
        """Wake whoever waits for a change."""

    @property
    def producer_id(self) -> str:
        """What message ids are made from."""
        return self._core.producer_id

    @property
    def epoch(self) -> int | None:
        """Of a fenceable producer that has begun."""
        return self._core.epoch

    def next_sequence(self, topic: str) -> int:
        """Of a fenceable producer, at `init`: 1 + the highest sequence ordered in that topic.

        The first record sent to the topic gets it. Records that earlier instances sent have counted
        up from 0: those below it are in the log, but for those that were given up (`on_error`,
        `unacked`) while later ones got through; the others are not and never will be.
        """
        return self._core.next_sequences.get(topic, 0)

    @property
    def last_stamp(self) -> int | None:
        """Stamp of the newest acknowledged record: later records get a higher one."""
        return self._core.last_stamp

    def unacked(self) -> list[Outgoing]:
        """Records that were given up, then those still on their way, with all that was sent."""
        with self._core.lock:
            return self._core.ledger.unacked()

    def _not_flushed(self) -> OrderTimeout:
        return OrderTimeout(
            f"{len(self._core.ledger)} records are not acknowledged yet",
            hint="wait longer, or see unacked()",
            stored="unknown",
        )


class Producer(_Base):
    """Sends records to one or more ingest nodes; blocking, thread-safe, a context manager.

    Options are those of `ProducerOptions`.
    """

    def __init__(
        self, urls: str | Sequence[str] = DEFAULT_INGEST_URL, **options: Unpack[ProducerOptions]
    ) -> None:
        self._bell: drive.Bell | None = None
        super().__init__(urls, options)
        self._bell = drive.Bell(self._core.lock)
        self._http = drive.open_http({}, self._core.nodes.urls)
        self._threads: list[threading.Thread] = []
        self._beginning = threading.Lock()

    def _ring(self) -> None:
        if self._bell is not None:
            self._bell.ring()

    def init(self) -> int:
        """Begin an epoch of a fenceable producer, and return it; the first `send` does so, too.

        From the return on nothing of an older instance is ordered any more.
        """
        with self._beginning:
            if self._core.epoch is None:
                assert self._bell is not None  # noqa: S101 - set in __init__
                drive.run(self._core.begin(), self._http, self._bell)
        return self._core.epoch or 0

    def send(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        *,
        headers: HeadersIn = None,
        partition: int | None = None,
        timestamp: int | None = None,
        message_id: str | None = None,
        delay_s: float | None = None,
        deliver_at: datetime | int | None = None,
        ttl_s: float | None = None,
    ) -> Future[Delivered]:
        """Queue one record; `.result(timeout)` of what is returned is its `Delivered`.

        Key and value: text, bytes, or anything JSON can hold; they come back out alike.
        Times are microseconds since 1970 UTC. `delay_s` and `deliver_at`: queue groups get it then,
        not before; `ttl_s`: not delivered when that is over. Waits while the buffer is full.
        """
        timing = timing_of(delay_s, deliver_at, ttl_s)
        record = self._core.prepare(
            topic, value, key, headers, partition, timestamp, message_id, timing
        )
        if self._core.fence and self._core.epoch is None:
            self.init()
        handle: Future[Delivered] = Future()
        record.handle = handle
        ledger, size = self._core.ledger, len(record.encoded)
        # The lock is held over both, so that another thread cannot take the room.
        with self._core.lock:
            if not ledger.has_room(size) and not self._wait(
                lambda: ledger.has_room(size), self._max_block_s
            ):
                raise ledger.no_room()
            fresh = self._core.queue(record)
            if fresh is not None:
                script = self._core.deliver(fresh)
                thread = threading.Thread(
                    target=drive.run,
                    args=(script, self._http, self._bell),
                    name=f"lakequeue-producer-{topic}",
                    daemon=True,
                )
                self._threads.append(thread)
                thread.start()
        return handle

    def prepare(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: HeadersIn,
        partition: int | None,
        timestamp: int | None,
        message_id: str,
        timing: Mapping[str, int] | None,
    ) -> Outgoing:
        """A record for `produce_whole`: checked, encoded, and not sent."""
        record = self._core.prepare(
            topic, value, key, headers, partition, timestamp, message_id, timing
        )
        record.encoded = record.encode(own_message_id=True, own_topic=True)
        return record

    def produce_whole(
        self, records: Sequence[Outgoing], consumed: Consumed | None = None
    ) -> list[Delivered]:
        """Send prepared records in one request, all or none, and wait until they are ordered.

        `atomic` and `Consumer.transform` are the comfortable ways. Raises `ConsumedElsewhere`,
        `ProducerFenced`, `NotOrdered`; after another error it is not known whether they count.
        """
        if self._core.fence and self._core.epoch is None:
            self.init()
        assert self._bell is not None  # noqa: S101 - set in __init__
        return drive.run(self._core.produce_whole(records, consumed), self._http, self._bell)

    def atomic(self) -> Atomic:
        """Records that become visible together, over topics and partitions; a context manager."""
        return Atomic(self)

    def _wait(self, until: Any, timeout_s: float | None) -> bool:
        assert self._bell is not None  # noqa: S101 - set in __init__
        return self._bell.wait_until(until, timeout_s)

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until every record sent so far is acknowledged or given up.

        Raises the error of the first record given up since the last flush.
        """
        self._core.flush(True)
        try:
            done = self._wait(lambda: not len(self._core.ledger), timeout_s)
        finally:
            self._core.flush(False)
        error = self._core.take_first_error()
        if error is not None:
            raise error
        if not done:
            raise self._not_flushed()

    def close(self, timeout_s: float | None = None) -> None:
        """Flush, then stop. What is not acknowledged in time is given up."""
        if self._core.closed:
            return
        try:
            self.flush(timeout_s)
        finally:
            self._core.close()
            if len(self._core.ledger):
                self._core.abort()
            for thread in self._threads:
                if thread is not threading.current_thread():
                    thread.join(timeout=1.0)
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        # The block has failed already: its error is the one to see, not ours.
        with contextlib.suppress(LakequeueError):
            self.close(timeout_s=1.0)


class AsyncProducer(_Base):
    """The same from asyncio, within one event loop."""

    def __init__(
        self, urls: str | Sequence[str] = DEFAULT_INGEST_URL, **options: Unpack[ProducerOptions]
    ) -> None:
        self._bell = drive_async.AsyncBell()
        super().__init__(urls, options)
        self._http = drive_async.open_http({}, self._core.nodes.urls)
        self._tasks: list[asyncio.Task[None]] = []
        self._beginning = asyncio.Lock()

    def _ring(self) -> None:
        self._bell.ring()

    async def init(self) -> int:
        """As `Producer.init`."""
        async with self._beginning:
            if self._core.epoch is None:
                await drive_async.run(self._core.begin(), self._http, self._bell)
        return self._core.epoch or 0

    async def send(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        *,
        headers: HeadersIn = None,
        partition: int | None = None,
        timestamp: int | None = None,
        message_id: str | None = None,
        delay_s: float | None = None,
        deliver_at: datetime | int | None = None,
        ttl_s: float | None = None,
    ) -> asyncio.Future[Delivered]:
        """Queue one record, waiting only while the buffer is full; await what is returned for its
        `Delivered`: `await (await p.send(…))`, or later."""
        timing = timing_of(delay_s, deliver_at, ttl_s)
        record = self._core.prepare(
            topic, value, key, headers, partition, timestamp, message_id, timing
        )
        if self._core.fence and self._core.epoch is None:
            await self.init()
        handle: asyncio.Future[Delivered] = asyncio.get_running_loop().create_future()
        # Whoever does not await it learns of an error from on_error, flush or unacked.
        handle.add_done_callback(lambda f: f.cancelled() or f.exception())
        record.handle = handle
        ledger, size = self._core.ledger, len(record.encoded)
        if not await self._bell.wait_until(lambda: ledger.has_room(size), self._max_block_s):
            raise ledger.no_room()
        fresh = self._core.queue(record)
        if fresh is not None:
            script = self._core.deliver(fresh)
            task = asyncio.create_task(drive_async.run(script, self._http, self._bell))
            self._tasks.append(task)
        return handle

    async def flush(self, timeout_s: float | None = None) -> None:
        """Wait until every record sent so far is acknowledged or given up.

        Raises the error of the first record given up since the last flush.
        """
        self._core.flush(True)
        try:
            done = await self._bell.wait_until(lambda: not len(self._core.ledger), timeout_s)
        finally:
            self._core.flush(False)
        error = self._core.take_first_error()
        if error is not None:
            raise error
        if not done:
            raise self._not_flushed()

    async def close(self, timeout_s: float | None = None) -> None:
        """Flush, then stop. What is not acknowledged in time is given up."""
        if self._core.closed:
            return
        try:
            await self.flush(timeout_s)
        finally:
            self._core.close()
            if len(self._core.ledger):
                self._core.abort()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=1.0)
            for task in self._tasks:
                task.cancel()
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
            return
        with contextlib.suppress(LakequeueError):
            await self.close(timeout_s=1.0)
