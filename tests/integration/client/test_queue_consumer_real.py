"""`Consumer(mode="queue")` against real consumer-service nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from lakequeue import Admin, AsyncConsumer, Consumer, Message
from lakequeue.clock import wall_micros
from lakequeue.errors import AttemptSuperseded, GroupMismatch
from tests.support.services.consumer_node import NodeProcess, Queue
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper
Start = Callable[..., NodeProcess]


def worker(topic: str, *urls: str, **options: Any) -> Consumer:
    # At these nodes alone: other tests have theirs in the same queue.
    return Consumer(
        topic,
        group=topic,
        urls=urls,
        find_nodes=False,
        mode="queue",
        ack_interval_ms=5,
        **options,
    )


def take(consumer: Consumer, count: int) -> list[Message]:
    found: list[Message] = []

    def more() -> bool:
        found.extend(consumer.poll(0.5, count - len(found)))
        return len(found) >= count

    wait_for(more, f"{count} records", timeout_s=60)
    return found


def lag(url: str, group: str) -> int:
    with Admin(consumer_urls=url) as admin:
        return sum(p.lag for p in admin.group(group).partitions)


def test_records_are_acked_one_by_one_and_come_again_when_they_are_not(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, [str(n) for n in range(6)])
    with worker(topic.topic, node.url, backoff_ms=0) as consumer:
        messages = take(consumer, 6)
        assert {m.attempt for m in messages} == {1}
        for message in messages[::2]:
            message.ack()
        messages[1].nack()
        messages[3].nack(delay_s=0.5)
        nacked = wall_micros()
        consumer.commit()
        first, later = take(consumer, 2)
        assert [(m.offset, m.attempt) for m in (first, later)] == [(1, 2), (3, 2)]
        assert wall_micros() - nacked >= 450_000
        for message in (first, later, messages[5]):
            message.ack()
        consumer.commit()
    assert lag(node.url, topic.topic) == 0


def test_what_is_held_is_renewed_and_the_end_of_a_worker_gives_it_back(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a"])
    with worker(topic.topic, node.url, visibility_timeout_ms=600) as holder:
        held = take(holder, 1)[0]
        with worker(topic.topic, node.url) as other:
            assert held.deadline is not None
            wait_for(lambda: wall_micros() > (held.deadline or 0) + 900_000, "its first deadline")
            assert other.poll(0.2) == []
            held.ack()
            holder.commit()
            assert lag(node.url, topic.topic) == 0


def test_an_ack_of_a_superseded_attempt_raises_with_both_numbers(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a"])
    options = {"visibility_timeout_ms": 300, "renew_for_s": 0.0}
    with worker(topic.topic, node.url, **options) as slow:
        late = take(slow, 1)[0]
        with worker(topic.topic, node.url) as other:
            again = take(other, 1)[0]
            # What it fetches ahead may have been its own record again, before the other got it.
            assert again.attempt >= 2
            late.ack()
            with pytest.raises(AttemptSuperseded, match=r"attempt 1 presented, \d+ current"):
                slow.commit()
            again.ack()
            other.commit()


def test_options_that_differ_from_the_groups_are_refused(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic().topic
    with worker(topic, node.url, max_attempts=3) as first:
        assert first.poll(0.2) == []
        with (
            worker(topic, node.url, max_attempts=4) as other,
            pytest.raises(GroupMismatch, match="max_attempts 3, 4"),
        ):
            other.poll(5.0)


def test_an_ack_survives_the_death_of_the_node_it_came_from(
    queue: Queue, node: NodeProcess, start_node: Start
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b"])
    dying = start_node(queue, "sdk-queue-dying")
    with worker(topic.topic, dying.url, node.url) as consumer:
        messages = take(consumer, 2)
        dying.kill()
        for message in messages:
            message.ack()
        consumer.commit(timeout_s=60)
        assert lag(node.url, topic.topic) == 0


def test_a_worker_is_sent_on_to_where_the_work_is(
    queue: Queue, node: NodeProcess, start_node: Start
) -> None:
    topic = queue.log.topic()
    other = start_node(queue, "sdk-without")
    with (
        worker(topic.topic, node.url) as first,
        worker(topic.topic, other.url) as second,
    ):
        assert first.poll(0.2) == []
        assert second.poll(0.2) == []
        queue.log.append(topic, [str(n) for n in range(40)])
        mine: list[int] = []
        theirs: list[int] = []

        def all_came() -> bool:
            for found, consumer in ((mine, first), (theirs, second)):
                for message in consumer.poll(0.2):
                    found.append(message.offset)
                    message.ack()
            return len(mine) + len(theirs) >= 40

        wait_for(all_came, "all records")
        assert sorted(mine + theirs) == list(range(40))


def test_from_asyncio(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b"])

    async def work() -> list[int]:
        attempts: list[int] = []
        async with AsyncConsumer(
            topic.topic, group=topic.topic, urls=node.url, mode="queue", backoff_ms=0
        ) as consumer:
            async for message in consumer:
                attempts.append(message.attempt)
                if message.attempt == 1:
                    message.nack()
                else:
                    message.ack()
                if attempts.count(2) == 2:
                    break
            await consumer.commit()
        return sorted(attempts)

    assert asyncio.run(work()) == [1, 1, 2, 2]
    assert lag(node.url, topic.topic) == 0
