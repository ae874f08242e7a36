"""Queue groups at several nodes: who has the partition, and what becomes of receipts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from queue_tables.schema.topic_rules import Topic
from tests.support.services.consumer_node import (
    HttpMember,
    NodeProcess,
    Queue,
)
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper
Start = Callable[..., NodeProcess]


def worker(node: NodeProcess, topic: Topic, **options: Any) -> HttpMember:
    """A member of the topic's queue group."""
    return HttpMember(node.url, topic, options={"mode": "queue", **options})


def test_workers_of_a_node_without_a_partition_are_sent_on(
    queue: Queue, node: NodeProcess, start_node: Start
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a"])
    other = start_node(queue, "without")
    with worker(node, topic) as first, worker(other, topic) as second:
        first.wait_owned(1)
        found: list[httpx2.Response] = []

        def sent_on() -> bool:
            found[:] = [second.get(wait_ms=50)]
            return found[0].status_code == 307

        wait_for(sent_on, "it is sent on")
        assert found[0].headers["Location"] == f"{node.url}/v1/groups/{second.group}/members"
        assert found[0].json()["code"] == "sent_on"


def test_receipts_stay_good_when_the_partition_moves_to_another_node(
    queue: Queue, node: NodeProcess, start_node: Start
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b", "c"])
    dying = start_node(queue, "moving")
    with worker(dying, topic) as first:
        records = first.poll_until(3)
        assert first.ack(records[:1]).status_code == 200
        dying.kill()
    with worker(node, topic) as heir:
        heir.wait_owned(1)
        assert heir.poll(wait_ms=100) == [], "they are in flight"
        # The old worker, whose node is gone, settles at the new owner.
        moved = httpx2.post(
            f"{node.url}{first.path}/acks", json={"acks": [records[1]["receipt"]]}, timeout=30
        )
        assert moved.status_code == 200, moved.text
        assert (
            heir.post(nacks=[{"receipt": records[2]["receipt"], "delay_ms": 0}]).status_code == 200
        )
        again = heir.poll_until(1)
        assert [(r["offset"], r["attempt"]) for r in again] == [(2, 2)]


def test_an_ack_at_a_node_that_has_not_the_partition_is_told_where_it_is(
    queue: Queue, node: NodeProcess, start_node: Start
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a"])
    other = start_node(queue, "beside")
    with worker(node, topic) as member:
        records = member.poll_until(1)
        answer = httpx2.post(
            f"{other.url}{member.path}/acks", json={"acks": [records[0]["receipt"]]}, timeout=30
        )
        said = answer.json()["refused"][0]
        assert (answer.status_code, said["why"], said["location"]) == (409, "elsewhere", node.url)
