"""Pausing and resuming: over nodes, over restarts, for both kinds of groups, by every way out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from lakequeue import Admin
from tests.support.services.consumer_node import (
    HttpMember,
    NodeProcess,
    Queue,
    describe,
    group_of,
    offsets,
)
from tests.support.services.endpoint import Endpoint, status
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper
Start = Callable[..., NodeProcess]
MODES = pytest.mark.parametrize("mode", ["stream", "queue"])


def say(url: str, group: str, verb: str, **body: Any) -> dict[str, Any]:
    """Pause or resume; the answer."""
    answer = httpx2.post(f"{url}/v1/groups/{group}/{verb}", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@MODES
def test_nothing_is_delivered_after_a_pause_and_a_waiting_poll_wakes_at_resume(
    queue: Queue, node: NodeProcess, mode: str
) -> None:
    topic = queue.log.topic()
    group = group_of(topic)
    queue.log.append(topic, ["a", "b"])
    with HttpMember(node.url, topic, options={"mode": mode}) as member:
        first = member.poll_until(2)
        assert say(node.url, group, "pause") == {"group": group, "paused": True, "rules": []}
        queue.log.append(topic, ["c"])
        wait_for(lambda: describe(node.url, group)[0]["end_offset"] == 3, "the third is ordered")
        assert member.poll(wait_ms=300) == []
        assert describe(node.url, group)[0]["paused"] is True
        assert member.ack(first).status_code == 200, "acks go on"
        found: list[dict[str, Any]] = []
        waiting = threading.Thread(target=lambda: found.extend(member.poll(wait_ms=30_000)))
        waiting.start()
        say(node.url, group, "resume")
        waiting.join(20)
        assert offsets(found) == [2]
        assert member.ack(found).status_code == 200


def test_paused_workers_extend_and_nack_and_what_is_due_waits_for_the_resume(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    group = group_of(topic)
    queue.log.append(topic, ["a", "b"])
    with HttpMember(node.url, topic, options={"mode": "queue"}) as member:
        a, b = member.poll_until(2)
        say(node.url, group, "pause")
        nacks = [{"receipt": a["receipt"], "delay_ms": 0}]
        extend = [{"receipt": b["receipt"], "visibility_timeout_ms": 60_000}]
        assert member.post(nacks=nacks, extend=extend).status_code == 200
        assert member.poll(wait_ms=300) == [], "due, and paused"
        say(node.url, group, "resume")
        (again,) = member.poll_until(1)
        assert (again["offset"], again["attempt"]) == (0, 2)


@MODES
def test_single_partitions_and_topics_are_paused_and_the_newest_word_counts(
    queue: Queue, node: NodeProcess, mode: str
) -> None:
    topic = queue.log.topic(partitions=2)
    group = group_of(topic)
    with HttpMember(node.url, topic, options={"mode": mode}) as member:
        member.wait_owned(2)
        said = say(node.url, group, "pause", topic=topic.topic, partitions=[1])
        assert said["rules"] == [{"topic": topic.topic, "partition": 1, "paused": True}]
        for partition in (0, 1):
            queue.log.append(topic, ["x"], partition=partition)
        found = member.poll_until(1) + member.poll(wait_ms=300)
        assert [r["partition"] for r in found] == [0]
        paused = {p: row["paused"] for p, row in describe(node.url, group).items()}
        assert paused == {0: False, 1: True}
        say(node.url, group, "pause")
        say(node.url, group, "resume", topic=topic.topic)
        assert [r["partition"] for r in member.poll_until(1)] == [1]


@MODES
def test_a_pause_lasts_over_nodes_that_die_and_is_met_by_those_that_come(
    queue: Queue, start_node: Start, mode: str
) -> None:
    topic = queue.log.topic()
    group = group_of(topic)
    queue.log.append(topic, ["a"])
    first = start_node(queue, f"first-{mode}")
    with HttpMember(first.url, topic, options={"mode": mode}) as member:
        member.wait_owned(1)
        say(first.url, group, "pause")
    first.kill()
    second = start_node(queue, f"second-{mode}")
    with HttpMember(second.url, topic, options={"mode": mode}) as member:
        member.wait_owned(1)
        assert member.poll(wait_ms=300) == []
        say(second.url, group, "resume")
        assert len(member.poll_until(1)) == 1


def test_a_pause_at_one_node_is_kept_by_all_when_it_answers(
    queue: Queue, start_node: Start
) -> None:
    topic = queue.log.topic(partitions=2)
    group = group_of(topic)
    nodes = [start_node(queue, f"of-two-{name}") for name in "ab"]
    members = [HttpMember(n.url, topic) for n in nodes]
    for member in members:
        member.join()
    for member in members:
        member.wait_owned(1)
    for round_ in range(5):
        say(nodes[round_ % 2].url, group, "pause")
        for partition in (0, 1):
            queue.log.append(topic, [f"round {round_}"], partition=partition)
        assert [m.poll(wait_ms=150) for m in members] == [[], []]
        say(nodes[0].url, group, "resume")
        got = [r for m in members for r in m.poll_until(1)]
        assert sorted(r["partition"] for r in got) == [0, 1]
    for member in members:
        member.client.close()


def test_a_pause_waits_for_an_owner_that_does_not_answer_until_its_lease_is_gone(
    queue: Queue, start_node: Start
) -> None:
    topic = queue.log.topic()
    group = group_of(topic)
    frozen, other = start_node(queue, "frozen-owner"), start_node(queue, "other")
    with HttpMember(frozen.url, topic) as member:
        member.wait_owned(1)
        frozen.freeze()
        try:
            with Admin(consumer_urls=other.url, timeout_s=60) as admin:
                assert admin.pause(group).paused
            assert describe(other.url, group)[0]["owner"] is None
        finally:
            frozen.thaw()


def test_events_and_webhooks_keep_to_a_pause(own_queue: Queue, start_node: Start) -> None:
    queue = own_queue
    node = start_node(queue, "pushing", LAKEQUEUE_CONSUMER__WEBHOOK_ALLOW_PRIVATE="true")
    topic = queue.log.topic()
    hooked = f"hooked-{topic.topic}"
    with (
        Endpoint(status(200)) as endpoint,
        Admin(consumer_urls=node.url) as admin,
        HttpMember(node.url, topic) as member,
    ):
        admin.set_webhook(hooked, endpoint.url, [topic.topic])
        member.wait_owned(1)
        wait_for(lambda: any(p.owner for p in admin.group(hooked).partitions), "owned")
        for group in (hooked, member.group):
            admin.pause(group)
        stop = threading.Event()
        events: list[str] = []

        def listen() -> None:
            with member.client.stream("GET", f"{member.path}/events") as answer:
                for line in answer.iter_lines():
                    if line.startswith(("event: record", ": alive")):
                        events.append(line)
                    if stop.is_set() or "event: record" in events:
                        return

        listening = threading.Thread(target=listen)
        listening.start()
        queue.log.append(topic, ["x"])
        # Its first sign of life comes when its first look has found nothing for 10 s.
        wait_for(lambda: bool(events), "the stream lives")
        assert events == [": alive"]
        assert endpoint.posts == []
        for group in (hooked, member.group):
            admin.resume(group)
        wait_for(lambda: "event: record" in events, "an event")
        wait_for(lambda: bool(endpoint.posts), "a post")
        stop.set()
        listening.join(20)


def test_wrong_requests_change_nothing(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    group = group_of(topic)
    with HttpMember(node.url, topic):
        for body, status, field in (
            ({"partitions": [0]}, 422, "topic"),
            ({"topic": topic.topic, "partitions": [1]}, 422, "partitions"),
            ({"topic": topic.topic, "partitions": []}, 422, "partitions"),
            ({"topic": "nowhere"}, 404, None),
            ({"all": True}, 422, "all"),
        ):
            answer = httpx2.post(f"{node.url}/v1/groups/{group}/pause", json=body, timeout=30)
            assert (answer.status_code, answer.json().get("field")) == (status, field), answer.text
        assert describe(node.url, group)[0]["paused"] is False
    answer = httpx2.post(f"{node.url}/v1/groups/nobody/pause", json={}, timeout=30)
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_group")
