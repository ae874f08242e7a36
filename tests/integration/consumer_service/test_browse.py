"""Looking at records without a group."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from lakequeue.client.admin import Admin
from lakequeue.errors import InvalidRequest, OffsetOutOfRange, UnknownTopic
from tests.support.services.consumer_node import NodeProcess, Queue

pytestmark = pytest.mark.zookeeper

START = 1_600_000_000_000_000


def page(node: NodeProcess, topic: str, **query: Any) -> dict[str, Any]:
    """One answer."""
    answer = httpx2.get(f"{node.url}/v1/topics/{topic}/records", params=query, timeout=30)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_by_offset_by_time_and_to_the_end(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    for at in (1_000_000, 2_000_000, 3_000_000):
        queue.log.append(topic, [f"v{at}"], timestamp=START + at)
    first = page(node, topic.topic, partition=0, max=2)
    assert [r["offset"] for r in first["records"]] == [0, 1]
    assert (first["next_offset"], first["start_offset"], first["end_offset"]) == (2, 0, 3)
    assert not {"receipt", "attempt"} & first["records"][0].keys()
    rest = page(node, topic.topic, partition=0, offset=first["next_offset"])
    assert [r["value"] for r in rest["records"]] == ["v3000000"]
    assert rest["next_offset"] == rest["end_offset"]
    by_time = page(node, topic.topic, partition=0, time=START + 1_500_000)
    assert [r["offset"] for r in by_time["records"]] == [1, 2]
    assert page(node, topic.topic, partition=0, offset=99)["records"] == []


def test_by_key_the_partition_is_the_partitioners(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic(partitions=4)
    with Admin(consumer_urls=node.url) as admin:
        partition = admin.browse(topic.topic, key="b").partition
        queue.log.append(topic, ["1"], partition=partition, key="a")
        queue.log.append(topic, ["2", "3"], partition=partition, key="b")
        found = admin.browse(topic.topic, key="b")
        assert [(r.offset, r.key, r.value) for r in found.records] == [(1, "b", "2"), (2, "b", "3")]
        assert not found.more
        one = admin.browse(topic.topic, key="b", max_records=1)
        assert [r.offset for r in one.records] == [1]
        assert one.more
        assert one.next_offset == 2
        assert admin.record(topic.topic, partition, 2).value == "3"


def test_what_is_not_there_is_said(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a"])
    with Admin(consumer_urls=node.url) as admin:
        with pytest.raises(OffsetOutOfRange, match="offsets 0 to 0, not 1"):
            admin.record(topic.topic, 0, 1)
        with pytest.raises(InvalidRequest, match="partition 7 does not exist"):
            admin.browse(topic.topic, 7)
        with pytest.raises(InvalidRequest, match="give partition, or a key"):
            admin.browse(topic.topic)
        with pytest.raises(InvalidRequest, match="not both"):
            admin.browse(topic.topic, 0, offset=1, time=START)
        with pytest.raises(UnknownTopic):
            admin.browse("no-such-topic", 0)
