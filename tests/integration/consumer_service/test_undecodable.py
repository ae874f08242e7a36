"""A record in `log` that a node cannot read: each policy of a group, in a real node."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pyarrow.compute as pc
import pytest

from coordination.embedded import EmbeddedZooKeeper
from jobs.erase import erase
from lakequeue import Admin
from lakequeue.clock import wall_micros
from lakequeue.records import Offset, Partition
from queue_tables.log.reader import LogReader
from queue_tables.schema.odd_bytes import headers_of
from queue_tables.schema.topic_rules import Topic
from queue_tables.topics import TopicStore
from tests.support.data.rows import raw_headers, raw_texts
from tests.support.faults.patching import environ
from tests.support.faults.unreadable import MARKER
from tests.support.services.consumer_node import (
    HttpMember,
    NodeProcess,
    Queue,
    describe,
    offsets,
    open_queue,
)
from tests.support.services.ingest_service import IngestService
from tests.support.services.order_thread import ordering
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper
WHY = "ZeroDivisionError: no value of it"


@pytest.fixture(scope="module")
def queue(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[Queue]:
    """A queue of this module's own."""
    yield from open_queue(tmp_path_factory.mktemp("undecodable"), zookeeper)


@pytest.fixture(scope="module")
def node(queue: Queue) -> Iterator[NodeProcess]:
    """A node that fails at some records."""
    fragile = NodeProcess(queue, "fragile", None, 0, **environ("unreadable"))
    yield fragile
    fragile.kill()


def hostile(queue: Queue) -> Topic:
    """Three records; the second cannot be read, and nothing of it is what it is declared as."""
    topic = queue.log.topic()
    queue.log.append(
        topic,
        [b"before", MARKER, b"behind"],
        message_id=raw_texts([b"a", b"\xff", b"c"]),
        headers=raw_headers([[], [(b"\xfe", b"\xff")], []]),
    )
    return topic


def member(node: NodeProcess, topic: Topic, mode: str, policy: str | None) -> HttpMember:
    options: dict[str, Any] = {"mode": mode} | ({"backoff_ms": 0} if mode == "queue" else {})
    if policy is not None:
        options["undecodable"] = policy
    return HttpMember(node.url, topic, f"{mode}-{uuid.uuid4().hex[:8]}", options)


def settled(node: NodeProcess, group: str) -> bool:
    return bool(describe(node.url, group)[0]["lag"] == 0)


def counted(node: NodeProcess, group: str) -> bool:
    text = httpx2.get(f"{node.url}/metrics").text
    said = f'lakequeue_consumer_undecodable_records_total{{group="{group}"}} 1'
    return any(line.startswith(said) for line in text.splitlines())


def is_named(node: NodeProcess, group: str) -> bool:
    lines = [line for line in node.trace.read_text().splitlines() if "record.decode_failed" in line]
    return len([line for line in lines if group in line]) == 1


@pytest.mark.parametrize("mode", ["stream", "queue"])
def test_where_a_predicate_fails_the_record_matches_nothing_and_the_group_goes_on(
    queue: Queue, node: NodeProcess, mode: str
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, [b"before", MARKER, b"other", b"behind"])
    options = {"mode": mode, "predicate": "value LIKE 'be%'"}
    group = f"{mode}-{uuid.uuid4().hex[:8]}"
    with HttpMember(node.url, topic, group, options) as one:
        records = one.poll_until(2)
        assert [(r["offset"], r["value"]) for r in records] == [(0, "before"), (3, "behind")]
        assert one.ack(records).status_code == 200
        wait_for(lambda: settled(node, group))
        assert counted(node, group)
        assert is_named(node, group)


@pytest.mark.parametrize(
    ("mode", "policy"), [("stream", None), ("stream", "tombstone"), ("queue", "tombstone")]
)
def test_it_comes_as_a_tombstone_that_says_why(
    queue: Queue, node: NodeProcess, mode: str, policy: str | None
) -> None:
    topic = hostile(queue)
    with member(node, topic, mode, policy) as one:
        records = one.poll_until(3)
        assert offsets(records) == [0, 1, 2]
        assert [r["value"] for r in records] == ["before", None, "behind"]
        assert records[1]["undecodable"] == WHY
        assert (records[1]["key"], records[1]["headers"]) == (None, [])
        assert one.ack(records).status_code == 200
        wait_for(lambda: settled(node, one.group))
        assert counted(node, one.group)
        assert is_named(node, one.group)


@pytest.mark.parametrize("mode", ["stream", "queue"])
def test_it_is_skipped(queue: Queue, node: NodeProcess, mode: str) -> None:
    topic = hostile(queue)
    with member(node, topic, mode, "skip") as one:
        records = one.poll_until(2)
        assert offsets(records) == [0, 2]
        assert one.ack(records).status_code == 200
        wait_for(lambda: settled(node, one.group))
        assert one.poll(wait_ms=50) == []
        assert counted(node, one.group)
        assert is_named(node, one.group)


def test_a_stream_group_stops_at_it_until_it_is_sought_past_it(
    queue: Queue, node: NodeProcess
) -> None:
    topic = hostile(queue)
    with member(node, topic, "stream", "stop") as one:
        stops_at_the_second(one, topic)
        assert one.get(wait_ms=50).status_code == 409, "it stays there"
        one.leave()
    with Admin(consumer_urls=node.url) as admin:
        wait_for(lambda: not admin.group(one.group).members)
        admin.seek(one.group, "offset", offset=2, topics=[topic.topic])
    with HttpMember(node.url, topic, one.group, {"undecodable": "stop"}) as next_one:
        assert offsets(next_one.poll_until(1)) == [2]


def test_a_stream_group_stops_at_it_until_it_is_erased(queue: Queue, node: NodeProcess) -> None:
    topic = hostile(queue)
    with member(node, topic, "stream", "stop") as one:
        stops_at_the_second(one, topic)
        done = erase(
            queue.root,
            topic.topic,
            lambda rows: rows.filter(pc.equal(rows["offset"], 1)),
            wall_micros(),
            dry_run=False,
        )
        assert done["records"] == 1

        def goes_on() -> list[int]:
            answer = one.get(wait_ms=200)
            return offsets(answer.json()["records"]) if answer.status_code == 200 else []

        assert wait_for(goes_on) == [1, 2]


def stops_at_the_second(one: HttpMember, topic: Topic) -> None:
    first = one.poll_until(1)
    assert offsets(first) == [0]
    assert one.ack(first).status_code == 200
    answer = one.get(wait_ms=50)
    assert answer.status_code == 409, answer.text
    said = answer.json()
    assert (said["code"], said["topic"], said["partition"], said["offset"]) == (
        "undecodable_record", topic.topic, 0, 1,
    )  # fmt: skip
    assert WHY in answer.text


@pytest.mark.parametrize("policy", [None, "dead_letter"])
def test_a_queue_group_sends_it_to_the_dead_letters_as_it_is(
    own_queue: Queue, start_node: Callable[..., NodeProcess], policy: str | None
) -> None:
    root, topic = own_queue.root, hostile(own_queue)
    ingest = IngestService(Path(root.uri), "--zookeeper", own_queue.zookeeper.hosts)
    with ingest, ordering(root, epoch=9):
        node = start_node(own_queue, "fragile", **environ("unreadable"))
        with member(node, topic, "queue", policy) as one:
            records = one.poll_until(2)
            assert offsets(records) == [0, 2], "no worker gets it"
            assert one.ack(records).status_code == 200
            wait_for(lambda: settled(node, one.group))
            with Admin(consumer_urls=node.url) as admin:
                found = admin.status(one.group, topic.topic, 0, 1)
                assert (found.status, found.reason) == ("dead", "undecodable")
            assert counted(node, one.group)
    letters = TopicStore(root).get(f"{topic.topic}.dlq")
    rows = LogReader(root).read_range(letters.topic_id, Partition(0), Offset(0), 10, 1 << 20)
    assert rows["value"].to_pylist() == [MARKER]
    said = dict(headers_of(rows["headers"])[0])
    assert said["lakequeue-reason"] == b"undecodable"
    assert said["lakequeue-offset"] == b"1"
    assert said["\\xfe"] == b"\xff"
