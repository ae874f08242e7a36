"""A topic grows under load: at once, or drained before, and then no key loses its order."""

from __future__ import annotations

import os
import signal
import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from coordination.zookeeper.notifications import NotificationListener
from lakequeue import Admin, Consumer, Producer
from lakequeue.errors import InvalidRequest, NotDrained
from queue_tables.topics import TopicStore
from tests.support.data.order_truth import judge, log_rows
from tests.support.faults.stopped import is_stopped
from tests.support.services.consumer_node import NodeProcess, Queue
from tests.support.services.ingest_service import IngestService
from tests.support.services.small_cluster import Cluster
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper
KEYS = 20


@dataclass
class Place:
    """One ingest node, one consumer-service node, the order job; the topic `t` of 2 partitions."""

    queue: Queue
    ingest: IngestService
    admin: Admin
    node: NodeProcess

    @property
    def url(self) -> str:
        return str(self.ingest.ready["url"])


@pytest.fixture
def place(shared_cluster: Cluster) -> Iterator[Place]:
    """The nodes that all tests share; `t` is this test's alone, and deleted at its end."""
    shared = shared_cluster
    shared.ingest.create("t", partitions=2)
    with Admin(shared.ingest_url, shared.node.url, timeout_s=30) as admin:
        yield Place(shared.queue, shared.ingest, admin, shared.node)
    shared.delete_topics()


@dataclass
class Seen:
    """What two consumers received, in the order of receipt."""

    by_key: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    partitions: set[int] = field(default_factory=set)
    count: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def consume(self, url: str) -> None:
        with Consumer("t", group="g", urls=url, ack_interval_ms=5) as consumer:
            while not self.stop.is_set():
                for message in consumer.poll(0.2, 20):
                    with self.lock:
                        self.by_key[str(message.key)].append(int(message.value))
                        self.partitions.add(message.partition)
                        self.count += 1
                    message.ack()


def test_a_topic_that_was_drained_keeps_every_key_in_order(place: Place) -> None:
    seen, errors = Seen(), []
    going = threading.Event()
    sent = 0

    def produce() -> None:
        nonlocal sent
        with Producer(
            place.url, batch_size=20, on_error=lambda _, error: errors.append(error)
        ) as producer:
            while not going.wait(0.002):
                producer.send("t", sent, key=f"k{sent % KEYS}")
                sent += 1

    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(seen.consume, place.node.url) for _ in range(2)]
        running.append(pool.submit(produce))
        try:
            wait_for(lambda: seen.count > 200, "records come")
            grown = place.admin.grow_topic("t", 6, timeout_s=60)
            assert (grown.partitions, grown.closed_until) == (6, None)
            wait_for(lambda: seen.partitions == set(range(6)), "all partitions are consumed")
            going.set()
            running[-1].result()
            wait_for(lambda: seen.count >= sent, "all is consumed")
        finally:
            going.set()
            seen.stop.set()
    assert errors == [], "producers wait, and are told of nothing"
    received = [n for numbers in seen.by_key.values() for n in numbers]
    assert sorted(received) == list(range(sent))
    for key, numbers in seen.by_key.items():
        assert numbers == sorted(numbers), key
    judge(place.queue.root)


def test_what_was_placed_before_is_not_stored_after(place: Place) -> None:
    paused = IngestService(
        Path(place.queue.root.uri), "--crash-at", "ingest.sealed:1:stop", node="slow"
    )
    with paused, ThreadPoolExecutor(1) as pool:
        record = {"key": "k", "value": 1, "message_id": "late"}
        answer = pool.submit(paused.send, [record], "t")
        wait_for(lambda: is_stopped(paused.worker), "it stands still before its commit")
        place.admin.grow_topic("t", 8, timeout_s=60)
        os.kill(paused.worker, signal.SIGCONT)
        refused = answer.result()
        assert refused.status_code == 503
        assert (refused.json()["code"], refused.json()["stored"]) == ("topic_closed", "no")
        again = paused.send([record], "t", "?wait=ordered&timeout_ms=30000")
        assert again.status_code == 200
        assert "duplicate" not in again.json()["records"][0], "nothing of the first try is there"
    topic_id = place.admin.topic("t").topic_id
    assert len([row for row in log_rows(place.queue.root) if row["topic_id"] == topic_id]) == 1


def test_a_topic_that_was_open_in_between_does_not_grow_as_if_it_had_been_drained(
    place: Place,
) -> None:
    assert place.ingest.send([{"value": 1}], "t", "?wait=ordered&timeout_ms=30000").is_success
    place.admin.seek("waits", "earliest", topics=["t"])
    with ThreadPoolExecutor(1) as pool:
        growing = pool.submit(place.admin.grow_topic, "t", 6, timeout_s=60)
        wait_for(lambda: place.admin.topic("t").closed_until is not None, "it is closed")
        place.admin.alter_topic("t", closed_for_ms=0)
        other = place.admin.alter_topic("t", closed_for_ms=120_000)
        place.admin.seek("waits", "latest", topics=["t"])
        with pytest.raises(NotDrained, match="somebody else"):
            growing.result()
    now = place.admin.topic("t")
    assert (now.partitions, now.closed_until) == (2, other.closed_until), "the other one drains"


def test_a_group_that_does_not_consume_keeps_it_as_it_was(place: Place) -> None:
    with Producer(place.url) as producer:
        producer.send("t", 1, key="k")
    place.admin.seek("idle", "earliest", topics=["t"])
    with pytest.raises(NotDrained, match="idle by 1"):
        place.admin.grow_topic("t", 4, timeout_s=3)
    found = place.admin.topic("t")
    assert (found.partitions, found.closed_until) == (2, None)
    with Producer(place.url) as producer:
        producer.send("t", 2, key="k")


def test_an_open_topic_cannot_be_settled_nor_grow_as_if_it_were_closed(place: Place) -> None:
    with pytest.raises(InvalidRequest, match="close it first"):
        place.admin.settle_topic("t")
    with pytest.raises(InvalidRequest, match="opened again before it could grow"):
        place.admin.alter_topic("t", partitions=4, closed_for_ms=0)


def test_each_change_of_a_topic_is_notified_so_that_nobody_waits_to_look(place: Place) -> None:
    topics, admin = TopicStore(place.queue.root), place.admin
    with NotificationListener(place.queue.session, "topics").start() as notifier:
        for change in (
            lambda: admin.create_topic("new", partitions=1),
            lambda: admin.alter_topic("new", partitions=3),
            lambda: admin.delete_topic("new"),
        ):
            change()
            topics.refresh()
            wait_for(lambda: notifier.version == topics.version, "the bell tells of the change")
