"""Receiving without joining, and purging, by plain HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from lakequeue.clock import wall_micros
from tests.support.services.consumer_node import (
    HttpMember,
    NodeProcess,
    Queue,
    Records,
    describe,
    group_of,
    offsets,
)
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper
Start = Callable[..., NodeProcess]


def post(url: str, group: str, verb: str, **body: Any) -> httpx2.Response:
    """One call about a group, as any HTTP client makes it."""
    path = f"{url}/v1/groups/{group}/{verb}"
    return httpx2.post(path, json=body, timeout=60, follow_redirects=True)


def receive(url: str, group: str, **body: Any) -> Records:
    """The records of one receive."""
    answer = post(url, group, "receive", **body)
    assert answer.status_code == 200, answer.text
    records: Records = answer.json()["records"]
    return records


def receipts(records: Records) -> list[str]:
    return [record["receipt"] for record in records]


def test_the_first_receive_finds_what_is_there_and_acks_need_no_member(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b"])
    records = receive(node.url, topic.topic, max=10)
    assert [(r["value"], r["attempt"]) for r in records] == [("a", 1), ("b", 1)]
    answer = post(node.url, topic.topic, "acks", acks=receipts(records))
    assert answer.status_code == 200, answer.text
    assert describe(node.url, topic.topic)[0]["lag"] == 0
    assert receive(node.url, topic.topic) == []


def test_a_visibility_timeout_is_for_one_receive_and_outlives_who_received(
    queue: Queue, start_node: Start
) -> None:
    node = start_node(queue, "brief", LAKEQUEUE_CONSUMER__SESSION_TIMEOUT_MS="1000")
    topic = queue.log.topic()
    queue.log.append(topic, ["long", "short"])
    before = wall_micros()
    (long,) = receive(node.url, topic.topic, visibility_timeout_ms=60_000)
    (short,) = receive(node.url, topic.topic, visibility_timeout_ms=300)
    assert 59e6 < long["deadline"] - before < 70e6
    (again,) = receive(node.url, topic.topic, wait_ms=20_000)
    assert (again["offset"], again["attempt"]) == (short["offset"], 2)
    assert again["deadline"] >= short["deadline"] + 30_000_000, "the group's own, 30 s"

    def alone() -> bool:
        members = httpx2.get(f"{node.url}/v1/groups/{topic.topic}").json()["members"]
        return not members

    wait_for(alone, "the node's own members are gone")
    assert receive(node.url, topic.topic, wait_ms=300) == [], "both are hidden still"
    assert post(node.url, topic.topic, "acks", acks=receipts([long])).status_code == 200


def test_receives_at_once_share_and_each_waiting_one_is_woken(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    found: list[dict[str, Any]] = []
    waiting = [
        threading.Thread(
            target=lambda: found.extend(receive(node.url, topic.topic, wait_ms=30_000))
        )
        for _ in range(4)
    ]
    for thread in waiting:
        thread.start()
    members = f"{node.url}/v1/groups/{topic.topic}"
    wait_for(lambda: len(httpx2.get(members).json().get("members", ())) == 4, "four wait")
    queue.log.append(topic, [str(n) for n in range(4)])
    for thread in waiting:
        thread.join(30)
    assert sorted(offsets(found)) == [0, 1, 2, 3]


def test_receives_for_other_topics_of_a_group_find_theirs_at_once_and_share_members(
    queue: Queue, node: NodeProcess
) -> None:
    topics = [queue.log.topic(), queue.log.topic()]
    group = topics[0].topic
    for topic in topics:
        queue.log.append(topic, [str(n) for n in range(3)])
    for n in range(3):
        for topic in topics:
            (record,) = receive(node.url, group, topics=[topic.topic])
            assert (record["topic"], record["offset"]) == (topic.topic, n)
    assert len(httpx2.get(f"{node.url}/v1/groups/{group}").json()["members"]) == 2
    assert httpx2.delete(f"{node.url}/v1/groups/{group}", timeout=30).status_code == 204


def test_a_node_without_partitions_sends_a_receive_on(queue: Queue, start_node: Start) -> None:
    a, b = start_node(queue, "has"), start_node(queue, "has-not")
    topic = queue.log.topic()
    queue.log.append(topic, ["x"])
    with HttpMember(a.url, topic, topic.topic, {"mode": "queue"}) as owner:
        owner.wait_owned(1)
        (record,) = receive(b.url, topic.topic, wait_ms=10_000)
        assert record["offset"] == 0
        assert post(a.url, topic.topic, "acks", acks=receipts([record])).status_code == 200


def test_a_purge_settles_what_is_there_wherever_it_is_and_refuses_old_receipts(
    queue: Queue, start_node: Start
) -> None:
    nodes = [start_node(queue, f"purged-{name}") for name in "ab"]
    topic = queue.log.topic(partitions=2)
    group = group_of(topic)
    for partition in (0, 1):
        queue.log.append(topic, ["in flight", "parked", "new"], partition)
    members = [HttpMember(n.url, topic, options={"mode": "queue"}) for n in nodes]
    owned: Records = []
    for member in members:
        member.join()
    for member in members:
        member.wait_owned(1)
        first, second = member.poll_until(2, max_records=2)
        nack = {"receipt": second["receipt"], "delay_ms": 0 if member is members[0] else 60_000}
        assert member.post(nacks=[nack]).status_code == 200
        owned.append(first)
    answer = post(nodes[0].url, group, "purge")
    assert answer.status_code == 200, answer.text
    assert [(p["partition"], p["offset"]) for p in answer.json()["partitions"]] == [(0, 3), (1, 3)]
    for partition in (0, 1):
        queue.log.append(topic, ["later"], partition)
    for member, old in zip(members, owned, strict=True):
        refused = member.ack([old])
        assert refused.status_code == 409
        assert refused.json()["refused"][0]["why"] == "superseded"
        got = member.poll_until(1)
        assert [(r["value"], r["attempt"]) for r in got] == [("later", 1)]
        assert member.ack(got).status_code == 200
    rows = describe(nodes[1].url, group).values()
    assert [(r["lag"], r["parked"], r["in_flight"]) for r in rows] == [(0, 0, 0)] * 2
    nodes[0].kill()
    taken = HttpMember(nodes[1].url, topic, options={"mode": "queue"})
    taken.join()
    wait_for(lambda: len(taken.owned()) == 2, "it has both")
    assert taken.poll(wait_ms=300) == [], "durable"
    for member in (*members, taken):
        member.client.close()


def test_a_group_that_nobody_owns_is_purged_and_a_stream_group_is_not(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b"])
    with HttpMember(node.url, topic, options={"mode": "queue"}) as member:
        assert len(member.poll_until(2)) == 2
        member.leave()
    assert post(node.url, member.group, "purge").json()["partitions"][0]["offset"] == 2
    assert describe(node.url, member.group)[0]["lag"] == 0
    with HttpMember(node.url, topic, "plain"):
        answer = post(node.url, "plain", "purge")
        assert (answer.status_code, answer.json()["field"]) == (422, "group")
    assert post(node.url, "nobody", "purge").status_code == 404


def test_a_group_is_made_with_its_options_and_idle_receivers_do_not_hold_it(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    group, path = topic.topic, f"{node.url}/v1/groups/{topic.topic}"
    made = httpx2.put(path, json={"visibility_timeout_ms": 7_000, "max_attempts": 3})
    assert (made.status_code, made.json()["options"]["max_attempts"]) == (200, 3)
    assert httpx2.put(path, json={"max_attempts": 4}).status_code == 409
    queue.log.append(topic, ["x"])
    before = wall_micros()
    (record,) = receive(node.url, group)
    assert 6e6 < record["deadline"] - before < 15e6
    assert post(node.url, group, "seek", to="latest").status_code == 200
    assert receive(node.url, group) == []
    assert httpx2.delete(path, timeout=30).status_code == 204
    wrong: list[dict[str, Any]] = [
        *({"max": 0}, {"topics": []}, {"visibility_timeout_ms": -1}, {"what": 1})
    ]
    for body in wrong:
        assert post(node.url, group, "receive", **body).status_code == 422
    assert post(node.url, group, "receive", topics=["nowhere"]).status_code == 404
