"""Acks that a poll brings along: durable before its answer, and judged each by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from queue_tables.schema.topic_rules import Topic
from tests.integration.consumer_service.queues.test_queue_groups import worker
from tests.support.services.consumer_node import (
    HttpMember,
    NodeProcess,
    Queue,
    Records,
    describe,
    offsets,
)

pytestmark = pytest.mark.zookeeper
Start = Callable[..., NodeProcess]


def work(member: HttpMember, records: Records, **said: Any) -> httpx2.Response:
    """One request: these are done, and more of them."""
    body = {"acks": [record["receipt"] for record in records], "wait_ms": 2_000, **said}
    return member.client.post(f"{member.path}/records", json=body)


def counts(node: NodeProcess, member: HttpMember) -> tuple[int, int, int]:
    row = describe(node.url, member.group)[0]
    return row["lag"], row["in_flight"], row["parked"]


def test_a_worker_acks_and_polls_by_one_request(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, [str(i) for i in range(20)])
    # As many as it may have at once: what it acks by the same request counts no more.
    with worker(node, topic, max_in_flight=8) as member:
        done: list[int] = []
        member.wait_owned(1)
        first = work(member, []).json()
        records = first["records"]
        assert (first["settled"], first["refused"]) == ([], [])
        while records:
            done += offsets(records)
            answer = work(member, records, max=8, wait_ms=0 if len(done) == 20 else 2_000)
            assert answer.status_code == 200, answer.text
            body = answer.json()
            assert (body["settled"], body["refused"]) == ([], [])
            assert len(body["records"]) == min(8, 20 - len(done))
            records = body["records"]
        assert done == list(range(20))
        assert counts(node, member) == (0, 0, 0)


def test_receipts_that_are_not_good_are_said_and_hold_up_nothing(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b", "c", "d"])
    with worker(node, topic) as member:
        a, b = member.poll_until(2, 2)
        assert member.ack([a]).status_code == 200
        of_others = a["receipt"].rsplit(".", 1)[0] + ".1"
        nacks = [{"receipt": b["receipt"], "delay_ms": 60_000}]
        body = work(member, [a, {"receipt": of_others}], nacks=nacks, max=2).json()
        assert [one["why"] for one in body["refused"]] == ["other_group"]
        (nacked,) = body["settled"]
        assert nacked["receipt"] == b["receipt"]
        assert nacked["due"] > b["deadline"] - 600_000_000
        assert offsets(body["records"]) == [2, 3]
        assert counts(node, member) == (3, 2, 1)


def test_the_next_record_of_a_key_comes_with_the_answer_to_the_ack_before_it(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b"])
    with worker(node, topic, ordering="key") as member:
        (first,) = member.poll_until(1)
        (second,) = work(member, [first]).json()["records"]
        assert (first["offset"], second["offset"]) == (0, 1)
        assert work(member, [second], wait_ms=0).json()["records"] == []
        assert counts(node, member) == (0, 0, 0)


def test_a_member_that_is_not_known_settles_nothing(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a"])
    with worker(node, topic) as member:
        records = member.poll_until(1)
        stranger = HttpMember(node.url, topic, member.group, member_id="nobody")
        refused = work(stranger, records)
        assert (refused.status_code, refused.json()["code"]) == (404, "unknown_member")
        assert refused.json()["stored"] == "no"
        assert counts(node, member) == (1, 1, 0)
        assert work(member, records, wait_ms=0).json()["refused"] == []
        assert counts(node, member) == (0, 0, 0)


def test_a_stream_group_is_told_to_ack_by_itself(queue: Queue, node: NodeProcess) -> None:
    topic: Topic = queue.log.topic()
    queue.log.append(topic, ["a"])
    with HttpMember(node.url, topic) as member:
        refused = work(member, member.poll_until(1))
        assert (refused.status_code, refused.json()["stored"]) == (422, "no")
