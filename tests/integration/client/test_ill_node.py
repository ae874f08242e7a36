"""A node that is ill beside one that is well: producers and consumers do not get to feel it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from consumer_service.read_failover import PATIENCE_S
from ingest.node import IngestNode
from lakequeue import Consumer, Producer
from lakequeue.client.admin import Admin
from lakequeue.clock import wall_micros
from lakequeue.settings import Settings
from lakequeue.wire import ProduceQuery
from queue_rules.produce.rows import Request, Rows
from tests.support.data.order_truth import rows_in
from tests.support.data.wall import Wall
from tests.support.faults.patching import environ
from tests.support.faults.sickness import SICK_FILE
from tests.support.services.consumer_node import HttpMember, NodeProcess, Queue, offsets
from tests.support.services.endpoint import Endpoint, status
from tests.support.services.event_stream import listening
from tests.support.services.ingest_service import IngestService
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper
PARTITIONS = 24
"""So many that each of two nodes is first for one of them, whatever ports they have."""


def stamps(queue: Queue, node: str) -> list[int]:
    """Of all records that a node has committed."""
    shards = [s for s in queue.root.shards("inbox") if str(s).startswith(f"{node}-")]
    return [row["stamp"] for s in shards for row in rows_in(queue.root, f"inbox/{s}")]


def test_what_a_node_with_a_wrong_clock_or_without_storage_cannot_take_another_takes(
    own_queue: Queue, tmp_path: Path
) -> None:
    root, chart = Path(own_queue.root.uri), tmp_path / "chart.json"
    hosts = ("--zookeeper", own_queue.session.hosts)
    patches = environ("sickness", **{SICK_FILE: str(chart)})
    with ExitStack() as stack:
        right = stack.enter_context(IngestService(root, *hosts, node="right"))
        off = stack.enter_context(IngestService(root, *hosts, node="off", **patches))
        right.create("t", partitions=PARTITIONS)
        for node in (right, off):
            wait_for(partial(knows_both, node), "each knows the other", 60.0)
        producer = stack.enter_context(Producer(str(right.ready["url"]), delivery_timeout_s=60.0))

        def send() -> None:
            handles = [producer.send("t", n, partition=n) for n in range(PARTITIONS)]
            producer.flush(60)
            assert [handle.exception(timeout=0) for handle in handles] == [None] * PARTITIONS

        send()
        before = stamps(own_queue, "off")
        assert before, "partitions pass both nodes"
        for off_s in (60.0, -60.0):
            chart.write_text(json.dumps({"clock_s": {"off": off_s}}))
            wait_for(partial(says, off, 503), "the jump is seen", 60.0)
            send()
            send()
        assert stamps(own_queue, "off") == before
        assert max(stamps(own_queue, "right")) <= wall_micros()
        chart.write_text("{}")
        wait_for(partial(says, off, 200), "it is right again", 60.0)

        chart.write_text(json.dumps({"failing": 1.0, "only": ["off"]}))
        wait_for(lambda: off.send([{"value": 1}], topic="t").status_code == 503, "it fails", 60.0)
        ended = len(stamps(own_queue, "off"))
        send()
        send()
        assert len(stamps(own_queue, "off")) == ended


def knows_both(node: IngestService) -> bool:
    return len(node.http.get("/v1/nodes").json()["ingest"]) == 2


def says(node: IngestService, status: int) -> bool:
    return node.http.get("/readyz").status_code == status


def test_a_node_that_is_alone_goes_on_whatever_its_clock_says(own_queue: Queue) -> None:
    wall = Wall(wall_micros())
    settings = Settings(root=own_queue.root.uri, zookeeper=own_queue.session.hosts)
    node = IngestNode(settings, "alone", "http://127.0.0.1:1", wall=wall).start()
    try:
        wait_for(lambda: node.presence.state == "connected", "it is registered", 60.0)
        topic, _ = node.topics.create("t", partitions=1)

        def send() -> None:
            rows = Rows([None], [0], [b"v"], [0], None, [0], [wall()], [None], sizes=[1])
            node.produce(Request(topic.topic_id, rows), topic, ProduceQuery())

        send()
        wall.now -= 60_000_000
        assert [trouble.code for trouble in node.troubles()] == ["clock_skew"]
        send()
    finally:
        node.close()


def test_consumers_of_a_node_that_cannot_read_the_log_go_to_one_that_can(
    own_queue: Queue, start_node: Callable[..., NodeProcess], tmp_path: Path
) -> None:
    chart = tmp_path / "chart.json"
    unreadable = start_node(
        own_queue, "unreadable", **environ("sickness", **{SICK_FILE: str(chart)})
    )
    topic = own_queue.log.topic("orders", partitions=2)
    with ExitStack() as stack:
        # Longer than anything here: their partitions do not wait for its end.
        options: dict[str, Any] = {"urls": unreadable.url, "session_timeout_ms": 120_000}
        consumers = [
            stack.enter_context(Consumer("orders", group="readers", **options)),
            stack.enter_context(Consumer("orders", group="workers", mode="queue", **options)),
        ]

        def goes_on(value: str, partition: int) -> None:
            own_queue.log.append(topic, [value], partition=partition)
            for consumer in consumers:
                wait_for(partial(receives, consumer, value), f"{value} comes", 60.0)

        goes_on("all well", 0)
        joined = [consumer.member_id for consumer in consumers]
        chart.write_text(json.dumps({"unreadable": 1.0}))
        wait_for(partial(is_ready, unreadable, 503), "it cannot read", 60.0)
        # It is alone: nobody is sent away, and all goes on when it sees again.
        assert consumers[0].poll(PATIENCE_S + 2.0) == []
        assert [consumer.member_id for consumer in consumers] == joined
        chart.write_text("{}")
        goes_on("it sees again", 1)
        start_node(own_queue, "right")
        chart.write_text(json.dumps({"unreadable": 1.0}))
        wait_for(partial(is_ready, unreadable, 503), "it cannot read", 60.0)
        goes_on("through the other", 0)


def receives(consumer: Consumer, value: str) -> bool:
    found = consumer.poll(1.0)
    for message in found:
        message.ack()
    return value in [message.value for message in found]


def is_ready(node: NodeProcess, status: int) -> bool:
    return httpx2.get(f"{node.url}/readyz", timeout=30).status_code == status


def test_events_and_webhooks_of_a_node_that_cannot_read_the_log_move_to_one_that_can(
    own_queue: Queue, start_node: Callable[..., NodeProcess], tmp_path: Path
) -> None:
    chart = tmp_path / "chart.json"
    allow = {"LAKEQUEUE_CONSUMER__WEBHOOK_ALLOW_PRIVATE": "true"}
    sick = environ("sickness", **{SICK_FILE: str(chart)})
    unreadable = start_node(own_queue, "unreadable", **allow, **sick)
    topic = own_queue.log.topic("orders", partitions=1)
    with (
        Endpoint(status(200)) as endpoint,
        Admin(consumer_urls=unreadable.url, timeout_s=30) as admin,
        HttpMember(unreadable.url, topic, "readers") as reader,
        HttpMember(unreadable.url, topic, "workers", options={"mode": "queue"} | KEPT) as worker,
        listening(reader) as read,
        listening(worker) as worked,
    ):
        admin.set_webhook("hook", endpoint.url, ["orders"])
        own_queue.log.append(topic, ["a", "b"])
        for member, events in ((reader, read), (worker, worked)):
            assert offsets(got := events.records(2)) == [0, 1]
            assert member.ack(got[:1]).status_code == 200
        wait_for(lambda: set(endpoint.offsets()) == {0, 1}, "they are posted", 60.0)
        assert receive(unreadable) == [0, 1]
        right = start_node(own_queue, "right", **allow)
        chart.write_text(json.dumps({"unreadable": 1.0}))
        own_queue.log.append(topic, ["c"])
        for member, events in ((reader, read), (worker, worked)):
            last = events.end()
            assert last["code"] == "sent_on", last
            assert last["location"] == f"{right.url}/v1/groups/{member.group}/members"
        with HttpMember(right.url, topic, "readers") as reader, listening(reader) as read:
            assert offsets(read.records(2)) == [1, 2]
        with (
            HttpMember(right.url, topic, "workers", options={"mode": "queue"}) as worker,
            listening(worker) as worked,
        ):
            assert offsets(worked.records(1)) == [2], "what it has been given is still worked on"
            assert worker.ack(got[1:]).status_code == 200
        wait_for(lambda: 2 in endpoint.offsets(), "it is posted", 60.0)
        wait_for(lambda: admin.webhook("hook").node == "right", "the other posts", 60.0)
        assert receive(unreadable) == [2]
        chart.write_text("{}")
        wait_for(partial(is_ready, unreadable, 200), "it sees again", 60.0)
        right.terminate()
        wait_for(lambda: admin.webhook("hook").node == "unreadable", "it stands again", 60.0)


KEPT = {"visibility_timeout_ms": 600_000}


def receive(node: NodeProcess) -> list[int]:
    """What comes without joining, by a client that follows redirects."""
    records: list[dict[str, Any]] = []

    def more() -> bool:
        asked = {"topics": ["orders"], "max": 10, "wait_ms": 1_000} | KEPT
        url = f"{node.url}/v1/groups/tasks/receive"
        answer = httpx2.post(url, json=asked, timeout=60, follow_redirects=True)
        assert answer.status_code == 200, answer.text
        records.extend(answer.json()["records"])
        return bool(records)

    wait_for(more, "records come", 60.0)
    return offsets(records)
