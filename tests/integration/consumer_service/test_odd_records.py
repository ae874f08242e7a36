"""No record that stands in `log` makes a call answer 500, whatever its bytes are."""

from __future__ import annotations

import base64
from typing import Any

import httpx2
import orjson
import pyarrow as pa
import pytest

from lakequeue import Consumer
from lakequeue.client.admin import Admin
from lakequeue.records import Format
from queue_tables.schema.topic_rules import Topic
from tests.support.data.rows import raw_headers, raw_texts
from tests.support.services.consumer_node import HttpMember, NodeProcess, Queue

pytestmark = pytest.mark.zookeeper

ODD = b"\xff\xfe"
FAR = pa.array([884_541_340_800_000_000, 1, -1], pa.timestamp("us", "UTC"))
"""Beyond what a datetime can hold, and odd."""


def odd_records(queue: Queue) -> Topic:
    """Three records: nothing of the first is what it is declared as, the others are plain."""
    topic = queue.log.topic()
    queue.log.append(
        topic,
        [ODD, "plain", "too"],
        key_format=[int(Format.JSON), int(Format.TEXT), int(Format.TEXT)],
        message_id=raw_texts([ODD, b"b", b"c"]),
        headers=raw_headers([[(ODD, ODD)] * 100, [(b"a", b"1")], []]),
        timestamp=FAR,
    )
    return topic


def check(record: dict[str, Any]) -> None:
    assert base64.b64decode(record["value_base64"]) == ODD
    assert base64.b64decode(record["key_base64"]) == b"k"
    assert record["message_id"] == "\\xff\\xfe"
    assert record["timestamp"] == 884_541_340_800_000_000
    name, value = record["headers"][99].values()
    assert (name, base64.b64decode(value)) == ("\\xff\\xfe", ODD)


def test_a_poll_and_a_browse_bring_them(queue: Queue, node: NodeProcess) -> None:
    topic = odd_records(queue)
    with HttpMember(node.url, topic) as member:
        records = member.poll_until(3)
        check(records[0])
        assert [r["value"] for r in records[1:]] == ["plain", "too"]
        assert member.ack(records).status_code == 200
    page = httpx2.get(f"{node.url}/v1/topics/{topic.topic}/records", params={"partition": 0})
    assert page.status_code == 200
    check(page.json()["records"][0])
    with Admin(consumer_urls=node.url) as admin:
        assert admin.record(topic.topic, 0, 0).value == ODD


def test_events_bring_them(queue: Queue, node: NodeProcess) -> None:
    topic = odd_records(queue)
    with HttpMember(node.url, topic) as member:
        seen: list[dict[str, Any]] = []
        with member.client.stream("GET", f"{member.path}/events") as answer:
            for line in answer.iter_lines():
                if line.startswith("data: ") and line != "data: {}":
                    seen.append(orjson.loads(line.removeprefix("data: ")))
                if len(seen) == 3:
                    break
        check(seen[0])


@pytest.mark.parametrize("ordering", ["none", "key"])
def test_workers_get_them(queue: Queue, node: NodeProcess, ordering: str) -> None:
    topic = odd_records(queue)
    group = f"{topic.topic}-{ordering}"
    with HttpMember(node.url, topic, group, {"mode": "queue", "ordering": ordering}) as member:
        for _ in range(3):
            records = member.poll_until(1, 1)
            if records[0]["offset"] == 0:
                check(records[0])
            assert member.ack(records).status_code == 200


@pytest.mark.parametrize(
    "predicate",
    [
        "message_id LIKE 'b%'",
        "headers['a'] = '1'",
        "json_value(value, '$.a') IS NULL AND offset = 1",
    ],
)
def test_a_predicate_looks_through_them(queue: Queue, node: NodeProcess, predicate: str) -> None:
    topic = odd_records(queue)
    with HttpMember(node.url, topic, options={"predicate": predicate}) as member:
        assert [r["offset"] for r in member.poll_until(1)] == [1]


def test_the_client_reads_them(queue: Queue, node: NodeProcess) -> None:
    topic = odd_records(queue)
    with Consumer(topic.topic, group=f"sdk-{topic.topic}", urls=node.url) as consumer:
        first = next(consumer)
        assert (first.key, first.value) == (b"k", ODD)
        assert first.headers == [("\\xff\\xfe", ODD)] * 100
