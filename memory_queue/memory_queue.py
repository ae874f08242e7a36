"""`MemoryQueue`: a queue for as long as a test lasts."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from typing import Any, TypeVar, Unpack
from weakref import WeakSet

import orjson

from lakequeue.calling import blocking_runner
from lakequeue.calling.closing import Closes
from lakequeue.client.admin import Admin
from lakequeue.client.consuming.async_consumer import AsyncConsumer
from lakequeue.client.consuming.consumer import Consumer
from lakequeue.client.consuming.consumer_base import ConsumerBase, ConsumerOptions
from lakequeue.client.producing.producer import AsyncProducer, Producer
from lakequeue.client.producing.producer_base import ProducerOptions
from lakequeue.client.queue import Queue
from lakequeue.client.record import Record
from lakequeue.errors import UnknownMember
from lakequeue.wire import TopicDescription, loads_exactly
from memory_queue.clock import Clock
from memory_queue.positions import plain
from memory_queue.service import Service
from memory_queue.transport import MemoryTransport

Client = TypeVar("Client", Producer, Consumer, Admin, Queue)


class MemoryQueue(Closes):
    """Topics, records and groups in this process; a context manager.

    The clients are the real ones. Make them here, or anywhere with `url` for both addresses.

    Args:
        urls: The queue answers at these as well while it is open: with `DEFAULT_INGEST_URL` and
            `DEFAULT_CONSUMER_URL` of `lakequeue.wire`, in code that names none. Open the queue
            first.

    Example:
        from lakequeue.testing import MemoryQueue

        with MemoryQueue() as queue:
            queue.create_topic("mails")
            queue.producer().send("mails", {"to": "ada"}).result(timeout=5)
            print(queue.records("mails")[0].value)
    """

    def __init__(self, urls: Sequence[str] = ()) -> None:
        self.url: str = f"http://{uuid.uuid4().hex}.memory"
        """Address of both services."""
        self._service = Service(self.url)
        self._transport = MemoryTransport(self._service)
        self._made: WeakSet[Producer | Consumer | Admin | Queue] = WeakSet()
        self._mounted = blocking_runner.mount((self.url, *urls), self._transport)

    @property
    def clock(self) -> Clock:
        """The time of the queue; `clock.advance(seconds)`."""
        return self._service.clock

    # -- clients ----------------------------------------------------------------------------------

    def producer(self, **options: Unpack[ProducerOptions]) -> Producer:
        """A producer on this queue, closed with it.

        Args:
            **options: See `ProducerOptions`.

        Returns:
            A `lakequeue.Producer`.
        """
        return self._keep(Producer(self.url, **options))

    def consumer(
        self, topics: str | Sequence[str], group: str, **options: Unpack[ConsumerOptions]
    ) -> Consumer:
        """A consumer on this queue, closed with it.

        Args:
            topics: One topic or several.
            group: Name of the group.
            **options: See `ConsumerOptions`.

        Returns:
            A `lakequeue.Consumer`.
        """
        return self._keep(Consumer(topics, group, **({"urls": self.url} | options)))

    def admin(self) -> Admin:
        """The administrator's calls on this queue.

        Returns:
            A `lakequeue.Admin`.
        """
        return self._keep(Admin(self.url, self.url))

    def queue(self, name: str, **options: Any) -> Queue:
        """A work queue on this one, which is made for it.

        Args:
            name: Of the topic and of the group.
            **options: As `Queue.create` takes them.

        Returns:
            A `lakequeue.Queue`.
        """
        return self._keep(Queue.create(name, self.url, self.url, **options))

    def async_producer(self, **options: Unpack[ProducerOptions]) -> AsyncProducer:
        """The same for asyncio; close it yourself.

        Args:
            **options: See `ProducerOptions`.

        Returns:
            A `lakequeue.AsyncProducer`.
        """
        return AsyncProducer(self.url, **options)

    def async_consumer(
        self, topics: str | Sequence[str], group: str, **options: Unpack[ConsumerOptions]
    ) -> AsyncConsumer:
        """The same for asyncio; close it yourself.

        Args:
            topics: One topic or several.
            group: Name of the group.
            **options: See `ConsumerOptions`.

        Returns:
            A `lakequeue.AsyncConsumer`.
        """
        return AsyncConsumer(topics, group, **({"urls": self.url} | options))

    # -- what tests ask for -----------------------------------------------------------------------

    def create_topic(self, topic: str, **config: Any) -> TopicDescription:
        """As `Admin.create_topic`.

        Args:
            topic: Name of the topic.
            **config: Its settings.

        Returns:
            The topic as it is now.
        """
        with Admin(self.url, self.url) as admin:
            return admin.create_topic(topic, **config)[0]

    def records(self, topic: str) -> list[Record]:
        """All records of a topic.

        Args:
            topic: Name of the topic.

        Returns:
            Its records, by partition and offset.

        Raises:
            UnknownTopic: There is no such topic.
        """
        with Admin(self.url, self.url) as admin:
            described = admin.topic(topic)
        return [
            Record(loads_exactly(orjson.dumps(plain(row))))
            for partition in range(described.partitions)
            for row in self._service.log.of(described.topic_id, partition)
        ]

    def expire(self, consumer: ConsumerBase | str) -> None:
        """Take a consumer (or member id) for gone, as after its session timeout.

        Its partitions and records go to others. It does not know, and finds out at its next call.

        Args:
            consumer: The consumer, or its member id.

        Raises:
            UnknownMember: It is in no group.
        """
        member_id = consumer if isinstance(consumer, str) else consumer.member_id
        if member_id is None:
            raise UnknownMember("the consumer has not joined", hint="poll it first")
        self._service.expire(member_id)

    # -- the end ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the blocking clients made here, and answer no more."""
        for client in list(self._made):
            with contextlib.suppress(Exception):
                client.close()
        self._transport.shut()
        self._mounted()

    def _keep(self, client: Client) -> Client:
        self._made.add(client)
        return client
