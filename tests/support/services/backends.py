"""Two queues with the same clients: `lakequeue.testing` in this process, and the real services."""

from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Unpack
from uuid import uuid4

from coordination.embedded import EmbeddedZooKeeper
from coordination.zookeeper.notifications import Notifier
from lakequeue import Admin, AsyncConsumer, AsyncProducer, Consumer, Message, Producer, Queue
from lakequeue.client.consuming.consumer_base import ConsumerOptions
from lakequeue.client.producing.producer_base import ProducerOptions
from lakequeue.clock import boot_seconds
from lakequeue.testing import MemoryQueue
from tests.support.services.consumer_node import NodeProcess, open_queue
from tests.support.services.ingest_service import IngestService
from tests.support.services.order_thread import folding, ordering
from tests.support.services.zookeeper import DEADLINE_S, wait_for

_NUMBERS = itertools.count()


class Backend(ABC):
    """A queue, by the addresses of its services."""

    quiet_s: float
    """How long nothing has to come until it is believed that nothing will."""

    def __init__(self, ingest_url: str, consumer_url: str) -> None:
        self.ingest_url = ingest_url
        self.consumer_url = consumer_url

    @abstractmethod
    def pass_time(self, seconds: float) -> None:
        """Let time pass."""

    def topic(self, partitions: int = 1, **config: Any) -> str:
        """A new topic of the test's own."""
        name = f"t{next(_NUMBERS)}-{uuid4().hex[:8]}"
        with self.admin() as admin:
            admin.create_topic(name, partitions=partitions, **config)
        return name

    def admin(self) -> Admin:
        """An `Admin`."""
        return Admin(self.ingest_url, self.consumer_url)

    def producer(self, **options: Unpack[ProducerOptions]) -> Producer:
        """A producer whose answers come when records are ordered."""
        return Producer(self.ingest_url, **({"acks": "ordered"} | options))

    def consumer(
        self, topics: str | Sequence[str], group: str, **options: Unpack[ConsumerOptions]
    ) -> Consumer:
        """A consumer that acknowledges at once."""
        return Consumer(
            topics, group, **({"urls": self.consumer_url, "ack_interval_ms": 5} | options)
        )

    def worker(self, topic: str, **options: Unpack[ConsumerOptions]) -> Consumer:
        """A worker of a queue group named after the topic; nothing rests, unless it says so."""
        plain: ConsumerOptions = {"mode": "queue", "backoff_ms": 0}
        return self.consumer(topic, topic, **(plain | options))

    def queue(self, name: str) -> Queue:
        """The verbs of queues on a topic and group."""
        return Queue(name, self.ingest_url, self.consumer_url)

    def async_producer(self) -> AsyncProducer:
        """The asyncio twin."""
        return AsyncProducer(self.ingest_url, acks="ordered")

    def async_consumer(
        self, topic: str, group: str, **options: Unpack[ConsumerOptions]
    ) -> AsyncConsumer:
        """The asyncio twin."""
        return AsyncConsumer(topic, group, **({"urls": self.consumer_url} | options))

    def send(self, topic: str, *values: Any, **options: Any) -> None:
        """Produce values, and wait until they are ordered."""
        with self.producer() as producer:
            for value in values:
                producer.send(topic, value, **options)


class InMemory(Backend):
    """`lakequeue.testing`."""

    quiet_s = 0.05

    def __init__(self, queue: MemoryQueue) -> None:
        super().__init__(queue.url, queue.url)
        self._memory = queue

    def pass_time(self, seconds: float) -> None:
        self._memory.clock.advance(seconds)


class Real(Backend):
    """An ingest node, a consumer-service node, and the order job without Spark."""

    quiet_s = 0.5

    def pass_time(self, seconds: float) -> None:
        # The services go by the clock of this machine, which nobody else may set.
        until = boot_seconds() + seconds
        wait_for(lambda: boot_seconds() >= until, f"{seconds} s to pass", seconds + DEADLINE_S)


@contextmanager
def in_memory() -> Iterator[Backend]:
    """For as long as the block lasts."""
    with MemoryQueue() as queue:
        yield InMemory(queue)


@contextmanager
def real(folder: Path, zookeeper: EmbeddedZooKeeper) -> Iterator[Backend]:
    """The same, with processes."""
    for queue in open_queue(folder, zookeeper):
        service = IngestService(Path(queue.root.uri), "--zookeeper", zookeeper.hosts)
        notifier = Notifier(queue.session, "log").start()
        with service, ordering(queue.root, notifier=notifier), folding(queue.root):
            node = NodeProcess(queue, f"behaviour-{uuid4().hex[:6]}")
            try:
                yield Real(str(service.ready["url"]), node.url)
            finally:
                node.kill()
                notifier.close()


def take(consumer: Consumer, count: int) -> list[Message]:
    """Poll until `count` records have come."""
    found: list[Message] = []

    def more() -> bool:
        found.extend(consumer.poll(0.5, count - len(found)))
        return len(found) >= count

    wait_for(more, f"{count} records")
    return found


def committed(backend: Backend, group: str) -> list[int | None]:
    """Positions of a group, by partition."""
    with backend.admin() as admin:
        rows = sorted(admin.group(group).partitions, key=lambda row: row.partition)
    return [row.committed_offset for row in rows]


def lag(backend: Backend, group: str) -> int:
    """Records of the group that are not settled."""
    with backend.admin() as admin:
        return sum(row.lag for row in admin.group(group).partitions)


def join(consumer: Consumer) -> None:
    """Join the group, and take nothing yet."""
    consumer.poll(0, 0)
    wait_for(lambda: consumer.member_id, "it has joined")


def in_background(consumer: Consumer) -> tuple[threading.Thread, list[Message]]:
    """Iterate in a thread, acknowledging, until the consumer is stopped."""
    seen: list[Message] = []

    def run() -> None:
        for message in consumer:
            seen.append(message)
            message.ack()

    thread = threading.Thread(target=run)
    thread.start()
    return thread, seen
