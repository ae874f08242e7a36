"""A node that is ill beside one that is well: producers do not get to feel it."""

from __future__ import annotations

import json
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from ingest.node import IngestNode
from ingest.rows import Request, Rows
from lakequeue import Producer
from lakequeue.clock import wall_micros
from lakequeue.settings import Settings
from lakequeue.wire import ProduceQuery
from tests.support.consumer_node import Queue
from tests.support.ingest_service import IngestService
from tests.support.order_truth import rows_in
from tests.support.patching import environ
from tests.support.sickness import SICK_FILE
from tests.support.wall import Wall
from tests.support.zookeeper import wait_for

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
    node = IngestNode(settings, "alone", "http://127.0.0.1:1", wall=wall)
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
