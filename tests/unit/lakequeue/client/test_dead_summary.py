"""What waits in a topic of dead letters, counted by why it died."""

from __future__ import annotations

from lakequeue.client.redrive import redrive
from lakequeue.client.redriven import Wanted
from lakequeue.testing import MemoryQueue


def die(queue: MemoryQueue, group: str, count: int) -> None:
    """A worker of `group` gives up the next records of `orders`."""
    with queue.consumer("orders", group=group, mode="queue", max_attempts=1) as worker:
        left = count
        while left:
            for message in worker.poll(10, left):
                message.nack()
                left -= 1
        worker.commit(10)


def test_dead_letters_are_counted_until_they_are_sent_back() -> None:
    with MemoryQueue() as queue:
        queue.create_topic("orders", partitions=1)
        queue.create_topic("orders.dlq", partitions=2)
        with queue.producer() as producer:
            for n in range(3):
                producer.send("orders", n, timestamp=1_700_000_000_000_000 + n)
        die(queue, "billing", 3)
        die(queue, "shipping", 1)
        with queue.admin() as admin:
            billing, shipping = admin.dead_letters("orders.dlq")
            assert (billing.topic, billing.origin, billing.group) == (
                *("orders.dlq", "orders"),
                "billing",
            )
            assert (billing.reason, billing.count) == ("max_attempts", 3)
            assert billing.newest - billing.oldest == 2
            assert (shipping.group, shipping.count) == ("shipping", 1)
            redrive(
                "orders.dlq",
                urls=admin._ingest.urls,
                consumer_urls=admin._consumer.urls,
                wanted=Wanted({"lakequeue-group": "billing"}),
            )
            (left,) = admin.dead_letters("orders.dlq")
            assert (left.group, left.count) == ("shipping", 1)
