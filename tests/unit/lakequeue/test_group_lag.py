"""How much a group has left to do, as a scaler of workers wants to know it."""

from __future__ import annotations

from lakequeue.testing import MemoryQueue


def test_a_queue_group_says_what_is_left_and_what_waits_for_a_worker() -> None:
    with MemoryQueue() as queue:
        queue.create_topic("jobs", partitions=2)
        with queue.producer() as producer:
            for n in range(5):
                producer.send("jobs", n, partition=n % 2)
        with (
            queue.consumer("jobs", group="g", mode="queue", max_in_flight=1) as worker,
            queue.admin() as admin,
        ):
            worker.poll(10, 1)[0].ack()
            worker.commit(10)
            worker.poll(10, 1)[0].nack(delay_s=60)
            worker.commit(10)
            (_held,) = worker.poll(10, 1)
            found = admin.group("g")
    assert (found.lag, found.waiting) == (4, 2)
    assert "lag" not in found.model_dump(), "an answer of the wire stays as it was"


def test_of_a_stream_group_all_that_is_left_waits() -> None:
    with MemoryQueue() as queue, queue.admin() as admin:
        queue.create_topic("jobs", partitions=2)
        with queue.producer() as producer:
            for n in range(4):
                producer.send("jobs", n, partition=n % 2)
        with queue.consumer("jobs", group="g") as consumer:
            consumer.poll(10, 1)[0].ack()
            consumer.commit(10)
            found = admin.group("g")
    assert (found.lag, found.waiting) == (3, 3)
