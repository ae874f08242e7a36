"""Clients that are given one node find the others, and go on through them when it dies."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from coordination.zookeeper.notifications import Notifier
from lakequeue import Admin, AsyncProducer, Consumer, Producer
from queue_tables.root import QueueRoot
from tests.support.data.order_truth import judge, log_rows, rows_in
from tests.support.services.consumer_node import NodeProcess, Queue
from tests.support.services.ingest_service import IngestService
from tests.support.services.order_thread import ordering
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper
PARTITIONS = 24
"""So many that each of two nodes is first for one of them, whatever ports they have."""
StartNode = Callable[..., NodeProcess]


def known(node: IngestService) -> set[str]:
    """The URLs of the ingest nodes, as one of them tells."""
    return {info["url"] for info in node.http.get("/v1/nodes").json()["ingest"]}


@pytest.fixture
def nodes(own_queue: Queue) -> Iterator[list[IngestService]]:
    """Two ingest nodes that know of each other; the topic `t`; the order job."""
    root = Path(own_queue.root.uri)
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                IngestService(root, "--zookeeper", own_queue.session.hosts, node=name)
            )
            for name in ("one", "two")
        ]
        urls = {node.ready["url"] for node in started}
        wait_for(lambda: all(known(node) == urls for node in started), "both are registered")
        started[0].create("t", partitions=PARTITIONS)
        notifier = Notifier(own_queue.session, "log").start()
        stack.callback(notifier.close)
        stack.enter_context(ordering(own_queue.root, notifier=notifier))
        yield started


def partitions_of(root: QueueRoot) -> dict[str, set[int]]:
    """Ingest node → the partitions whose records it has committed."""
    found: dict[str, set[int]] = defaultdict(set)
    for shard in root.shards("inbox"):
        node = str(shard).partition("-")[0]
        found[node] |= {row["partition"] for row in rows_in(root, f"inbox/{shard}")}
    return found


def test_a_partition_passes_one_node_and_the_next_one_when_that_is_killed(
    nodes: list[IngestService], own_queue: Queue
) -> None:
    root = own_queue.root
    errors: list[Any] = []
    with Producer(
        str(nodes[0].ready["url"]),
        batch_size=50,
        on_error=lambda record, error: errors.append((record.message_id, error)),
    ) as producer:
        for n in range(500):
            producer.send("t", n, key=f"k{n % 40}")
        producer.flush(60)
        through = partitions_of(root)
        assert set(through) == {"one", "two"}, "a node that the producer was not given"
        assert not through["one"] & through["two"]
        for n in range(500, 1_000):
            producer.send("t", n, key=f"k{n % 40}")
            if n == 700:
                nodes[1].kill()
        producer.flush(60)
        for n in range(1_000, 1_100):
            producer.send("t", n)
        producer.flush(60)
    assert errors == []
    wait_for(lambda: len(log_rows(root)) >= 1_100, "all is ordered")
    judge(root)
    rows = sorted(log_rows(root), key=lambda row: (row["partition"], row["offset"]))
    assert sorted(int(row["value"]) for row in rows) == list(range(1_100))
    by_key: dict[Any, list[int]] = defaultdict(list)
    for row in rows:
        by_key[row["key"], row["partition"]].append(int(row["value"]))
    keyed = {key: values for key, values in by_key.items() if key[0] is not None}
    assert len(keyed) == 40, "no key changes its partition"
    assert all(values == sorted(values) for values in keyed.values())


def test_a_fenceable_producer_goes_on_through_a_node_that_it_was_not_given(
    nodes: list[IngestService],
) -> None:
    given = str(nodes[0].ready["url"])
    with Producer(given, producer_id="importer", fence=True, delivery_timeout_s=20) as producer:
        assert producer.send("t", 1).result(60).offset == 0
        nodes[0].kill()
        assert producer.send("t", 2).result(60).stamp


def test_a_topic_made_anew_with_fewer_partitions_is_no_error(
    nodes: list[IngestService], own_queue: Queue
) -> None:
    with (
        Admin([str(node.ready["url"]) for node in nodes]) as admin,
        Producer(str(nodes[0].ready["url"])) as producer,
    ):
        for n in range(50):
            producer.send("t", "x" * 4_000 + str(n))
        producer.flush(60)
        admin.delete_topic("t")
        admin.create_topic("t", partitions=1)
        # A node that has not heard of it takes records for the old one a second longer.
        assert [n.http.get("/v1/topics/t").json()["partitions"] for n in nodes] == [1, 1]
        handles = [producer.send("t", "x" * 4_000 + str(n)) for n in range(50)]
        producer.flush(60)
        assert {handle.result().partition for handle in handles} == {0}


def test_asyncio_finds_them_too(nodes: list[IngestService], own_queue: Queue) -> None:
    async def produce() -> list[int]:
        async with AsyncProducer(str(nodes[1].ready["url"])) as producer:
            handles = [await producer.send("t", n, key=f"k{n}") for n in range(200)]
            return [(await handle).partition for handle in handles]

    assert set(asyncio.run(produce())) == set(range(PARTITIONS))
    assert {node for node, parts in partitions_of(own_queue.root).items() if parts} == {
        "one",
        "two",
    }


def test_a_consumer_finds_a_node_that_was_added_after_it_has_joined(
    own_queue: Queue, start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakequeue.calling.nodes.FIND_EVERY_S", 0.2)
    topic = own_queue.log.topic()
    first = start_node(own_queue, "c-one")
    with Consumer(topic.topic, group="g", urls=first.url, session_timeout_ms=4_000) as consumer:
        known = consumer._core.nodes.nodes
        assert consumer.poll(0) == []
        wait_for(lambda: consumer.member_id, "it has joined")
        second = start_node(own_queue, "c-two")
        wait_for(lambda: second.url in known.urls, "it knows of the other")
        first.kill()
        own_queue.log.append(topic, ["a"])
        messages = wait_for(lambda: consumer.poll(1), "the record")
    assert [message.value for message in messages] == ["a"]


def test_a_consumer_that_is_given_one_node_goes_on_when_that_is_killed(
    own_queue: Queue, start_node: StartNode
) -> None:
    topic = own_queue.log.topic()
    own_queue.log.append(topic, ["a"])
    first, second = start_node(own_queue, "c-one"), start_node(own_queue, "c-two")
    lines: list[str] = []
    with Consumer(
        topic.topic, group="g", urls=first.url, on_status=lines.append, session_timeout_ms=4_000
    ) as consumer:
        got = consumer.poll(60)
        assert [message.value for message in got] == ["a"]
        got[0].ack()
        consumer.commit(60)
        own, other = (first, second) if first.url in lines[0] else (second, first)
        own.kill()
        own_queue.log.append(topic, ["b"])
        values: list[Any] = []
        while "b" not in values:
            values += [message.value for message in consumer.poll(60)]
        assert any(f"joined /v1/groups/g at {other.url}" in line for line in lines)
    assert values == ["b"]
