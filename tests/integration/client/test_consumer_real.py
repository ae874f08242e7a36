"""The consumers against real consumer-service nodes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from lakequeue import Admin, AsyncConsumer, Consumer, Lost, Message
from lakequeue.calling.effects import Reply
from lakequeue.client.consuming import core
from lakequeue.client.consuming.poll_answers import read_poll
from lakequeue.errors import EpochSuperseded, SkippedRecords, UnknownTopic, Unreachable
from lakequeue.records import Format
from lakequeue.wire import ARROW_STREAM
from tests.support.services.consumer_node import NodeProcess, Queue
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper
Start = Callable[..., NodeProcess]


def take(consumer: Consumer, count: int) -> list[Message]:
    """Poll until `count` records have come."""
    found: list[Message] = []

    def more() -> bool:
        found.extend(consumer.poll(0.5, count - len(found)))
        return len(found) >= count

    wait_for(more, f"{count} records", timeout_s=60)
    return found


def committed(url: str, group: str) -> list[int | None]:
    """Positions of the group, by partition."""
    with Admin(consumer_urls=url) as admin:
        states = sorted(admin.group(group).partitions, key=lambda p: p.partition)
        return [p.committed_offset for p in states]


def test_the_five_line_loop(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, [f"v{i}" for i in range(10)])
    seen: list[tuple[int, Any]] = []
    with Consumer(topic.topic, group=topic.topic, urls=node.url) as consumer:
        for message in consumer:
            seen.append((message.offset, message.value))
            message.ack()
            if message.offset == 6:
                break
    assert seen == [(i, f"v{i}") for i in range(7)]
    assert committed(node.url, topic.topic) == [7], "leaving has sent the acknowledgements"
    with Consumer(topic.topic, group=topic.topic, urls=node.url) as consumer:
        assert [m.offset for m in take(consumer, 3)] == [7, 8, 9]
    assert committed(node.url, topic.topic) == [7], "what is not acknowledged is not committed"


def test_many_records_come_in_columns_as_they_were_sent(
    queue: Queue, node: NodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = queue.log.topic(partitions=2)
    kinds: list[tuple[str, int]] = []

    def reads(reply: Reply) -> dict[str, Any]:
        body = read_poll(reply)
        kinds.append((reply.headers["content-type"], len(body["records"])))
        return body

    monkeypatch.setattr(core, "read_poll", reads)
    sent: dict[int, list[Any]] = {0: [b"\xff%d" % n for n in range(400)], 1: []}
    queue.log.append(topic, sent[0], 0, Format.BYTES)
    queue.log.append(topic, [f"ä{n}" for n in range(200)], 1, Format.TEXT)
    queue.log.append(topic, [b'{"n":%d}' % n for n in range(200)], 1, Format.JSON)
    sent[1] = [f"ä{n}" for n in range(200)] + [{"n": n} for n in range(200)]
    with Consumer(topic.topic, group=topic.topic, urls=node.url) as consumer:
        messages = take(consumer, 800)
        for message in messages:
            message.ack()
        consumer.commit()
    for partition in (0, 1):
        mine = [message for message in messages if message.partition == partition]
        assert [message.offset for message in mine] == list(range(400))
        assert [message.value for message in mine] == sent[partition]
        assert {message.key for message in mine} == {"k"}
        assert [message.message_id for message in mine] == [f"{partition}-{n}" for n in range(400)]
    assert sum(count for kind, count in kinds if kind == ARROW_STREAM) >= 256
    assert committed(node.url, topic.topic) == [400, 400]


def test_acknowledgements_go_out_in_the_background_and_commit_waits(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b", "c"])
    with Consumer(topic.topic, group=topic.topic, urls=node.url) as consumer:
        first, second, third = take(consumer, 3)
        first.ack()
        wait_for(lambda: committed(node.url, topic.topic) == [1], "the background has sent it")
        with pytest.raises(SkippedRecords):
            third.ack()
        third.ack(commit_through=True)
        consumer.commit()
        assert committed(node.url, topic.topic) == [3]
        second.ack()
        consumer.commit()
        assert committed(node.url, topic.topic) == [3]


def test_stop_ends_a_waiting_loop(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    with Consumer(topic.topic, group=topic.topic, urls=node.url) as consumer:
        joined = threading.Event()
        seen: list[Message] = []

        def loop() -> None:
            joined.set()
            seen.extend(consumer)

        thread = threading.Thread(target=loop)
        thread.start()
        joined.wait(10)
        wait_for(lambda: consumer.member_id, "joined")
        consumer.stop()
        thread.join(10)
        assert not thread.is_alive()
        assert seen == []


def test_partitions_move_to_a_consumer_that_joins_and_back(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic(partitions=4)
    lost: list[Lost] = []
    with Consumer(topic.topic, topic.topic, urls=node.url, on_lost=lost.extend) as first:
        first.poll(0.1)
        wait_for(lambda: len(first.assignment) == 4, "the first owns all")
        with Consumer(topic.topic, topic.topic, urls=node.url) as second:
            second.poll(0.1)
            wait_for(lambda: len(second.assignment) == 2, "the second owns half")
            wait_for(lambda: len(first.assignment) == 2, "the first gave half away")
            assert {item.partition for item in lost} == {p for _, p in second.assignment}
        wait_for(lambda: len(first.assignment) == 4, "the first owns all again")
        for partition in range(4):
            queue.log.append(topic, [f"p{partition}"], partition)
        assert {m.partition for m in take(first, 4)} == set(range(4))


def test_a_consumer_moves_to_the_next_node_when_its_own_is_killed(
    queue: Queue, start_node: Start
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b"])
    a, b = start_node(queue, "sdk-a"), start_node(queue, "sdk-b")
    lines: list[str] = []
    lost: list[Lost] = []
    with Consumer(
        topic.topic,
        topic.topic,
        urls=[a.url, b.url],
        find_nodes=False,
        on_status=lines.append,
        on_lost=lost.extend,
        session_timeout_ms=2_000,
    ) as consumer:
        first, second = take(consumer, 2)
        first.ack()
        consumer.commit()
        own, other = (a, b) if a.url in lines[0] else (b, a)
        own.kill()
        queue.log.append(topic, ["c"])
        again = take(consumer, 2)
        assert [m.value for m in again] == ["b", "c"], "acknowledged: not again; the other: again"
        assert again[0].epoch is not None
        assert second.epoch is not None
        assert again[0].epoch > second.epoch
        assert [(item.partition, item.epoch) for item in lost] == [(0, second.epoch)]
        second.ack()
        with pytest.raises(EpochSuperseded, match=f"epoch {second.epoch} presented"):
            consumer.commit()
        for message in again:
            message.ack()
        consumer.commit()
        assert committed(other.url, topic.topic) == [3]
    assert any(f"joined /v1/groups/{topic.topic} at {other.url}" in line for line in lines)


def test_a_restarted_node_is_joined_again(queue: Queue, start_node: Start) -> None:
    topic = queue.log.topic()
    node = start_node(queue, "sdk-c")
    port = int(node.url.rsplit(":", 1)[1])
    with Consumer(
        topic.topic, topic.topic, urls=node.url, find_nodes=False, session_timeout_ms=2_000
    ) as consumer:
        consumer.poll(0.1)
        wait_for(lambda: consumer.assignment, "owns")
        member = consumer.member_id
        node.kill()
        start_node(queue, "sdk-d", port=port)
        queue.log.append(topic, ["after"])
        assert [m.value for m in take(consumer, 1)] == ["after"]
        assert consumer.member_id != member


def test_what_cannot_work_is_raised_where_it_is_iterated(queue: Queue, start_node: Start) -> None:
    node = start_node(queue, "sdk-e")
    with Consumer("nowhere", "nobody", urls=node.url) as consumer, pytest.raises(UnknownTopic):
        next(consumer)
    node.kill()
    with (
        Consumer("nowhere", "nobody", urls=node.url, connect_timeout_s=0.3) as consumer,
        pytest.raises(Unreachable, match="does not answer"),
    ):
        next(consumer)


def test_the_async_twin(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, [f"v{i}" for i in range(50)])

    async def scenario() -> list[Any]:
        seen = []
        async with AsyncConsumer(topic.topic, topic.topic, urls=node.url) as consumer:
            async for message in consumer:
                seen.append(message.value)
                message.ack()
                if len(seen) == 50:
                    break
            await consumer.commit()
            assert committed(node.url, topic.topic) == [50]
            assert await consumer.poll(0.05) == []
        return seen

    assert asyncio.run(scenario()) == [f"v{i}" for i in range(50)]
