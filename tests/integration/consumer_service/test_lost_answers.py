"""An answer that is lost on the way to the client loses no record: polls say what arrived."""

from __future__ import annotations

import json
import threading
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.support.services.consumer_node import HttpMember, NodeProcess, Queue, offsets
from tests.support.services.fronts import Raw, posted
from tests.support.services.zookeeper import wait_for

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


@pytest.mark.parametrize("leaves", [False, True], ids=["polls", "leaves"])
def test_in_a_queue_group_an_answer_that_did_not_arrive_was_no_attempt(
    queue: Queue, node: NodeProcess, leaves: bool
) -> None:
    topic = queue.log.topic(partitions=1)
    queue.log.append(topic, ["a"])
    options = {"mode": "queue", "max_attempts": 1}
    with HttpMember(node.url, topic, options=options) as member:
        member.wait_owned(1)
        first = member.get(1, after=0).json()
        while not first["records"]:
            first = member.get(1, 1_000, after=first["poll"]).json()
        if not leaves:
            again = member.get(1, after=first["poll"] - 1).json()
        else:
            left = member.client.delete(member.path, params={"after": first["poll"] - 1})
            assert left.status_code == 204
    if leaves:
        with HttpMember(node.url, topic, options=options) as other:
            other.wait_owned(1)
            again = other.get(1, 20_000, after=0).json()
    assert [(r["offset"], r["attempt"]) for r in again["records"]] == [(0, 2)]


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


@pytest.mark.parametrize("most", ["1", "%31"], ids=["event loop", "application"])
def test_a_client_that_asks_for_little_is_told_the_assignment_when_it_changes(
    queue: Queue, node: NodeProcess, most: str
) -> None:
    topic = queue.log.topic(partitions=2)
    with HttpMember(node.url, topic) as member:
        member.wait_owned(2)

        def got(after: int) -> Any:
            asked = f"{member.path}/records?max={most}&wait_ms=0&after={after}"
            return member.client.get(asked, headers={"Prefer": "return=minimal"}).json()

        first = got(0)
        assert [a["partition"] for a in first["assignment"]] == [0, 1]
        second = got(first["poll"])
        assert second["assignment"] is None
        assert got(0)["assignment"] == first["assignment"], "a client that got none"
        plain = member.get(1, 0, after=second["poll"]).json()
        assert plain["assignment"] == first["assignment"], "a client that did not ask for it"
        with HttpMember(node.url, topic, group=member.group) as other:
            other.wait_owned(1)
            third = got(plain["poll"])
            assert len(third["assignment"]) == 1
            assert got(third["poll"])["assignment"] is None


def asked_and_not_read(url: str, request: bytes) -> None:
    """A client that asks, gets the first bytes of a long answer, and goes."""
    place = urlsplit(url)
    raw = Raw((str(place.hostname), place.port or 0), receive_bytes=4_096)
    raw.send(request)
    assert raw.socket.recv(16) == b"HTTP/1.1 200 OK\r"
    raw.close()


@pytest.mark.parametrize("mode", ["stream", "queue"])
def test_what_a_poll_was_answered_with_comes_again_if_its_client_did_not_read_it(
    queue: Queue, node: NodeProcess, mode: str
) -> None:
    topic = queue.log.topic(partitions=1)
    queue.log.append(topic, ["x" * 20_000] * 600)
    kept = {"visibility_timeout_ms": 600_000} if mode == "queue" else {}
    with HttpMember(node.url, topic, options={"mode": mode} | kept) as member:
        member.wait_owned(1)
        asked_and_not_read(
            node.url,
            f"GET {member.path}/records?max=500 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(),
        )
        got: list[dict[str, Any]] = []

        def first_again() -> bool:
            got[:] = member.poll(10, 100)
            return 0 in offsets(got)

        wait_for(first_again, "the first of what was not read")
        assert offsets(got) == list(range(10))
        assert member.ack(got).status_code == 200


def test_what_a_receive_was_answered_with_comes_again_if_its_client_did_not_read_it(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic(partitions=1)
    queue.log.append(topic, ["x" * 20_000] * 600)
    asked = {"topics": [topic.topic], "max": 500, "visibility_timeout_ms": 600_000}
    path = f"/v1/groups/of-{topic.topic}/receive"
    asked_and_not_read(
        node.url,
        posted(path, json.dumps(asked).encode(), "Content-Type: application/json"),
    )

    def first_again() -> bool:
        answer = httpx2.post(node.url + path, json=asked | {"max": 10}, timeout=30)
        return 0 in offsets(answer.json()["records"])

    wait_for(first_again, "the first of what was not read")
