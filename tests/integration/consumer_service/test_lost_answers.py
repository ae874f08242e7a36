"""An answer that is lost on the way to the client loses no record: polls say what arrived."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.support.services.consumer_node import HttpMember, NodeProcess, Queue, offsets

pytestmark = pytest.mark.zookeeper


def test_what_an_unconfirmed_answer_held_is_delivered_again(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, [str(i) for i in range(6)])
    with HttpMember(node.url, topic) as member:
        member.wait_owned(1)
        first = member.get(2, after=0).json()
        second = member.get(2, after=first["poll"]).json()
        lost = member.get(2, after=second["poll"]).json()
        again = member.get(3, after=second["poll"]).json()
        assert [offsets(a["records"]) for a in (first, second, lost)] == [[0, 1], [2, 3], [4, 5]]
        assert offsets(again["records"]) == [4, 5]
        answer = member.ack([*first["records"], *second["records"], *again["records"]])
        assert answer.status_code == 200


def test_what_is_acked_does_not_come_again_although_its_answer_is_not_confirmed(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b", "c"])
    with HttpMember(node.url, topic) as member:
        member.wait_owned(1)
        got = member.get(3, after=0).json()["records"]
        assert member.ack(got[:2]).status_code == 200
        assert offsets(member.get(3, after=0).json()["records"]) == [2]


def test_an_older_poll_that_still_waits_takes_nothing_from_a_newer_one(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    with HttpMember(node.url, topic) as member:
        member.wait_owned(1)
        answers: dict[str, Any] = {}

        def poll(name: str) -> threading.Thread:
            thread = threading.Thread(
                target=lambda: answers.update({name: member.get(10, 20_000, after=0).json()})
            )
            thread.start()
            return thread

        older = poll("older")
        newer = poll("newer")
        # Whichever the server began first ends empty as soon as the other begins.
        queue.log.append(topic, ["a", "b"])
        older.join(30)
        newer.join(30)
        assert sorted(offsets(a["records"]) for a in answers.values()) == [[], [0, 1]]
