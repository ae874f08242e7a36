"""Records as CloudEvents: polled, received, looked at, streamed and posted by a real node."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import orjson
import pytest

from lakequeue.records import Format
from lakequeue.wire.cloud_events import BATCH, ONE
from tests.support.services.consumer_node import HttpMember, NodeProcess, Queue

pytestmark = pytest.mark.zookeeper
HEADERS = [
    {"key": name, "value": value}
    for name, value in (
        ("ce_specversion", b"1.0"),
        ("ce_id", b"e-1"),
        ("ce_source", b"/shop"),
        ("ce_type", b"order.made"),
        ("content-type", b"application/json"),
    )
]
EVENT = {
    "specversion": "1.0",
    "id": "e-1",
    "source": "/shop",
    "type": "order.made",
    "partitionkey": "k",
    "datacontenttype": "application/json",
    "data": {"n": 1},
}


def events(answer: httpx2.Response) -> list[dict[str, Any]]:
    """Of a batch."""
    assert (answer.status_code, answer.headers["content-type"]) == (200, BATCH), answer.text
    found: list[dict[str, Any]] = answer.json()
    return found


def test_every_way_out_hands_out_events_by_accept(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ['{"n": 1}'], fmt=Format.JSON, headers=[HEADERS])
    queue.log.append(topic, ["plain"])
    accept = {"Accept": f"{BATCH}, application/json;q=0.5"}
    with httpx2.Client(base_url=node.url, headers=accept, timeout=60) as http:
        looked = http.get(f"/v1/topics/{topic.topic}/records", params={"partition": 0})
        assert looked.headers["lakequeue-next-offset"] == "2"
        first, second = events(looked)
        assert first.items() >= EVENT.items()
        assert (first["lakequeueoffset"], "lakequeuereceipt" in first) == ("0", False)
        assert (second["source"], second["id"]) == (f"/topics/{topic.topic}", "0-1")
        asked = {"topics": [topic.topic], "max": 1, "wait_ms": 20_000}
        group = f"/v1/groups/events-{topic.topic}"
        [received] = events(http.post(f"{group}/receive", json=asked))
        assert received.items() >= EVENT.items()
        acks = {"acks": [received["lakequeuereceipt"]]}
        assert http.post(f"{group}/acks", json=acks).status_code == 200
        with HttpMember(node.url, topic) as member:
            member.wait_owned(1)
            path = f"/v1/groups/{member.group}/members/{member.member_id}"
            polled = http.get(f"{path}/records", params={"wait_ms": 20_000})
            assert polled.headers["lakequeue-poll"].isdigit()
            assert [one["lakequeueoffset"] for one in events(polled)] == ["0", "1"]
        with HttpMember(node.url, topic, f"sse-{topic.topic}") as member:
            member.wait_owned(1)
            path = f"/v1/groups/{member.group}/members/{member.member_id}/events"
            with http.stream(
                "GET", path, headers={"Accept": f"text/event-stream, {ONE}"}
            ) as stream:
                data = next(line for line in stream.iter_lines() if line.startswith("data: "))
            assert json.loads(data.removeprefix("data: ")).items() >= EVENT.items()


def test_without_accept_records_are_as_they_were(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ['{"n": 1}'], fmt=Format.JSON, headers=[HEADERS])
    answer = httpx2.get(f"{node.url}/v1/topics/{topic.topic}/records", params={"partition": 0})
    [record] = orjson.loads(answer.content)["records"]
    assert record["value"] == {"n": 1}
