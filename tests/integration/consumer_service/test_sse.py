"""Server-sent events of queue groups: receipts, resuming, silence, and nodes without work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.services.consumer_node import HttpMember, NodeProcess, Queue, describe, offsets
from tests.support.services.event_stream import listening

pytestmark = pytest.mark.zookeeper
Start = Callable[..., NodeProcess]


def worker(node: NodeProcess, topic: Any, **options: Any) -> HttpMember:
    """A worker whose records do not come again by themselves while a test runs."""
    settings = {"mode": "queue", "visibility_timeout_ms": 600_000, **options}
    return HttpMember(node.url, topic, options=settings)


def test_events_of_a_queue_group_carry_receipts_that_settle(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b", "c"])
    with worker(node, topic, max_in_flight=2) as member, listening(member) as events:
        first = events.records(2)
        assert offsets(first) == [0, 1]
        assert [r["attempt"] for r in first] == [1, 1]
        assert all(r["deadline"] > 0 for r in first)
        assert describe(node.url, member.group)[0]["in_flight"] == 2, "max_in_flight holds"
        assert member.ack(first[:1]).status_code == 200
        assert member.post(nacks=[{"receipt": first[1]["receipt"], "delay_ms": 0}]).is_success
        rest = events.records(2)
        assert sorted((r["offset"], r["attempt"]) for r in rest) == [(1, 2), (2, 1)]
        assert member.ack(rest).status_code == 200
        assert describe(node.url, member.group)[0]["lag"] == 0


def test_a_reconnect_brings_what_was_in_events_that_did_not_arrive(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, [str(i) for i in range(6)])
    with worker(node, topic) as member:
        with listening(member) as events:
            got = events.records(6)
        assert member.ack(got[:1]).status_code == 200
        assert member.ack(got[4:5]).status_code == 200
        # As if the last that arrived had been the third: acked is what is acked.
        with listening(member, got[2]["receipt"]) as events:
            again = events.records(2)
            assert [(r["offset"], r["attempt"]) for r in again] == [(3, 2), (5, 2)]
            # What did arrive is still this worker's, under the receipts that it has.
            assert member.ack([*got[1:3], *again]).status_code == 200
        assert describe(node.url, member.group)[0]["lag"] == 0


def test_a_client_that_got_no_event_at_all_gets_everything_again(
    queue: Queue, node: NodeProcess
) -> None:
    for mode in ("queue", "stream"):
        topic = queue.log.topic()
        queue.log.append(topic, ["a", "b"])
        options = {} if mode == "stream" else {"visibility_timeout_ms": 600_000}
        with HttpMember(node.url, topic, options={"mode": mode, **options}) as member:
            member.wait_owned(1)
            with listening(member) as events:
                assert events.beginning() == "start"
                lost = events.records(2)
            assert member.ack(lost[:1]).status_code == 200
            with listening(member, "start") as events:
                assert offsets(events.records(1)) == [1], mode


def test_an_older_stream_on_a_dead_connection_takes_nothing_from_a_newer_one(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    with worker(node, topic) as member:
        member.wait_owned(1)
        with listening(member) as older, listening(member) as newer:
            assert older.next() == ("end", {})
            queue.log.append(topic, ["a", "b"])
            assert offsets(newer.records(2)) == [0, 1]


def test_what_a_stream_held_goes_to_others_when_its_member_leaves(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b"])
    with worker(node, topic, max_in_flight=2) as member, worker(node, topic) as other:
        with listening(member) as events:
            got = events.records(2)
        assert other.poll(wait_ms=50) == []
        # Its own stream takes the record again, as it is the only one that asks; then it leaves.
        with listening(member, got[0]["receipt"]) as events:
            assert offsets(events.records(1)) == [1]
            member.leave()
        again = other.poll_until(2)
        assert sorted((r["offset"], r["attempt"]) for r in again) == [(0, 2), (1, 3)]


def test_silence_is_broken_by_comments_and_keeps_the_worker_alive(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    with worker(node, topic, session_timeout_ms=2_000) as member, listening(member) as events:
        assert events.next() == ("comment", "alive")
        queue.log.append(topic, ["a"])
        assert offsets(events.records(1)) == [0]


def test_a_worker_of_a_node_without_a_partition_is_sent_on(
    queue: Queue, node: NodeProcess, start_node: Start
) -> None:
    topic = queue.log.topic()
    idle = start_node(queue, "idle")
    with worker(node, topic) as first:
        # One after the other: the node of whoever is there first keeps the partition.
        first.wait_owned(1)
        with worker(idle, topic) as second, listening(second) as events:
            data = events.end()
        assert data["code"] == "sent_on"
        assert data["location"] == f"{node.url}/v1/groups/{second.group}/members"


def test_a_member_that_leaves_is_told_in_the_last_event(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    with worker(node, topic) as member, listening(member) as events:
        member.leave()
        event, data = events.next()
        assert (event, data["code"]) == ("end", "unknown_member")


def test_a_damaged_last_event_id_is_refused(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    for mode in ("queue", "stream"):
        group = f"{mode}-{topic.topic}"
        with HttpMember(node.url, topic, group, options={"mode": mode}) as member:
            answer = member.client.get(f"{member.path}/events", headers={"Last-Event-ID": "x"})
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
