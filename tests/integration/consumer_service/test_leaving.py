"""Whoever leaves while the node looks: what he held goes on all the same."""

from __future__ import annotations

from typing import Any

import pytest

from consumer_service.calls.groups import Groups
from consumer_service.members import Member
from consumer_service.node import Node
from coordination.groups.controller import read_assignment
from lakequeue.wire import JoinRequest
from serving.front.parking import finish
from tests.support.services.consumer_node import Queue
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper


def join(node: Node, topic: str, **options: Any) -> Member:
    request = JoinRequest(topics=[topic], mode="queue", session_timeout_ms=120_000, **options)
    answer = Groups(node).join("workers", request, "test")
    return node.members.get("workers", answer.member_id)


def take(node: Node, member: Member, count: int) -> list[tuple[int, int]]:
    """Offsets and attempts of `count` records."""
    got: list[tuple[int, int]] = []

    def more() -> bool:
        polled = finish(node.queue_delivery.steps(member, 10, 0.5, lambda: False))
        got.extend((r["offset"], r["attempt"]) for r in polled.records)
        return len(got) >= count

    wait_for(more, f"{count} records")
    return got


def test_who_leaves_in_the_middle_of_a_look_has_his_records_returned(
    own_queue: Queue, own_node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = own_queue.log.topic()
    own_queue.log.append(topic, ["a", "b"])
    first = join(own_node, topic.topic, visibility_timeout_ms=600_000)
    assert take(own_node, first, 2) == [(0, 1), (1, 1)]

    def leave_meanwhile(*args: Any) -> Any:
        # The look has counted its members; this one goes before the look ends.
        if first.active:
            Groups(own_node).let_go(first)
        return read_assignment(*args)

    monkeypatch.setattr("consumer_service.ownership.reconciler.read_assignment", leave_meanwhile)
    own_node.reconciler.wake()
    assert first.gone.wait(30)
    second = join(own_node, topic.topic)
    assert take(own_node, second, 2) == [(0, 2), (1, 2)]
