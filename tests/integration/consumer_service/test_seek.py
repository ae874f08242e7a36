"""Moving and deleting groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from coordination.groups import membership
from tests.support.services.consumer_node import (
    HttpMember,
    NodeProcess,
    Queue,
    describe,
    group_of,
    offsets,
)

pytestmark = pytest.mark.zookeeper
Start = Callable[..., NodeProcess]

START = 1_600_000_000_000_000


def seek(url: str, group: str, **body: Any) -> httpx2.Response:
    """One seek."""
    return httpx2.post(f"{url}/v1/groups/{group}/seek", json=body, timeout=30)


def targets(answer: httpx2.Response) -> list[tuple[int | None, int]]:
    """FROM and TO of each partition."""
    assert answer.status_code == 200, answer.text
    return [(m["from_offset"], m["to_offset"]) for m in answer.json()["partitions"]]


def test_every_target_and_the_dry_run(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    for at in (1_000_000, 2_000_000, 3_000_000, 4_000_000):
        queue.log.append(topic, ["x"], timestamp=START + at)
    with HttpMember(node.url, topic) as member:
        member.ack(member.poll_until(4)[:2])
        member.leave()
    for body, to in (
        ({"to": "earliest"}, 0),
        ({"to": "latest"}, 4),
        ({"to": "latest", "shift": -1}, 3),
        ({"to": "committed", "shift": -1}, 1),
        ({"to": "committed", "shift": -9}, 0),
        ({"to": "offset", "offset": 3}, 3),
        ({"to": "offset", "offset": 99}, 4),
        ({"to": "time", "time": START + 2_500_000}, 2),
        ({"to": "time", "time": START + 9_000_000}, 4),
        ({"to": "time", "time": "2020-09-13T12:26:42.5Z"}, 2),
        ({"to": "time", "time": "1960-01-01T00:00:00Z"}, 0),
    ):
        answer = seek(node.url, group_of(topic), dry_run=True, **body)
        assert targets(answer) == [(2, to)]
        assert answer.json()["executed"] is False
    assert describe(node.url, group_of(topic))[0]["committed_offset"] == 2


def test_a_seek_moves_back_and_lasts_over_restarts(
    queue: Queue, node: NodeProcess, start_node: Start
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b", "c"])
    group = group_of(topic)
    moved = start_node(queue, "moved")
    with HttpMember(moved.url, topic) as member:
        member.ack(member.poll_until(3))
        member.leave()
    assert targets(seek(moved.url, group, to="offset", offset=1)) == [(3, 1)]
    assert describe(moved.url, group)[0]["committed_offset"] == 1
    moved.kill()
    with HttpMember(node.url, topic) as member:
        records = member.poll_until(2)
        assert offsets(records) == [1, 2]
        assert member.ack(records).status_code == 200
    assert describe(node.url, group)[0]["committed_offset"] == 3


def test_a_seek_of_an_active_group_is_refused_and_names_the_owner(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    with HttpMember(node.url, topic) as member:
        member.wait_owned(1)
        for answer in (
            seek(node.url, group_of(topic), to="earliest"),
            httpx2.delete(f"{node.url}/v1/groups/{group_of(topic)}", timeout=30),
        ):
            assert (answer.status_code, answer.json()["code"]) == (409, "group_active")
            assert member.member_id in answer.json()["detail"]


def test_a_group_can_be_made_by_a_seek(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic(partitions=2)
    queue.log.append_many(topic, {0: ["a", "b"], 1: ["c"]})
    unknown = seek(node.url, group_of(topic), to="latest")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown_group")
    assert targets(seek(node.url, group_of(topic), to="latest", topics=[topic.topic])) == [
        (None, 2),
        (None, 1),
    ]
    queue.log.append(topic, ["d"], partition=1)
    with HttpMember(node.url, topic) as member:
        assert [(r["partition"], r["offset"]) for r in member.poll_until(1)] == [(1, 1)]


def test_wrong_combinations_are_refused(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    for body in (
        {"to": "offset"},
        {"to": "earliest", "offset": 1},
        {"to": "time"},
        {"to": "time", "time": START // 1_000_000},
        {"to": "time", "time": START // 1_000},
        {"to": "time", "time": 1 << 70},
        {"to": "time", "time": "2020-09-13"},
        {"to": "offset", "offset": 1 << 70},
        {"to": "latest", "shift": 1 << 70},
        {"to": "nowhere"},
        {"to": "earliest", "topics": [topic.topic], "partition": 9},
        {"to": "earliest", "topics": []},
    ):
        answer = seek(node.url, group_of(topic), **body)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def test_a_deleted_group_starts_anew(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b"])
    with HttpMember(node.url, topic) as member:
        member.ack(member.poll_until(2))
        member.leave()
    assert httpx2.delete(f"{node.url}/v1/groups/{group_of(topic)}", timeout=30).status_code == 204
    assert httpx2.get(f"{node.url}/v1/groups/{group_of(topic)}", timeout=30).status_code == 404
    with HttpMember(node.url, topic) as member:
        assert offsets(member.poll_until(2)) == [0, 1]


def test_a_seek_keeps_a_groups_options_when_zookeeper_has_lost_them(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b"])
    group = group_of(topic)
    options = {"mode": "queue", "max_attempts": 2, "backoff_ms": 7}
    with HttpMember(node.url, topic, options=options) as member:
        member.ack(member.poll_until(2))
        member.leave()
    path = membership.group_path(queue.session, group)
    queue.session.kazoo.delete(path, recursive=True)
    assert targets(seek(node.url, group, to="earliest")) == [(2, 0)]
    answer = httpx2.get(f"{node.url}/v1/groups/{group}", timeout=30).json()
    assert answer["options"] == {"max_attempts": 2, "backoff_ms": 7}
    with HttpMember(node.url, topic, options=options) as member:
        assert offsets(member.poll_until(2)) == [0, 1]
