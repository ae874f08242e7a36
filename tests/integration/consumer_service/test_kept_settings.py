"""What people said about groups outlives the ensemble: its data is lost, the tables have it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest

from coordination.embedded import EmbeddedZooKeeper
from coordination.groups import membership
from coordination.groups.webhooks import webhook_of
from coordination.zookeeper.session import Session
from queue_tables.group_settings import GroupSettings
from queue_tables.identity import FORMAT_PATH, raise_format
from queue_tables.schema.formats import NEWEST
from tests.support.services.consumer_node import HttpMember, NodeProcess, Queue, group_of
from tests.support.services.zookeeper import FAST, wait_for

pytestmark = pytest.mark.zookeeper
Start = Callable[..., NodeProcess]
ALLOW = {"LAKEQUEUE_CONSUMER__WEBHOOK_ALLOW_PRIVATE": "true"}
HOOK = "http://127.0.0.1:9/hook"


def call(method: str, to: str, expected: int = 200, **body: Any) -> dict[str, Any]:
    sent = body if method in {"POST", "PUT"} else None
    answer = httpx2.request(method, to, json=sent, timeout=60)
    assert answer.status_code == expected, answer.text
    return dict(answer.json()) if answer.content else {}


def lose(zookeeper: EmbeddedZooKeeper) -> None:
    """The ensemble with all its data; another one, empty, at the same address."""
    zookeeper.kill()
    shutil.rmtree(zookeeper.data_dir)
    zookeeper.start()


def paused(url: str, group: str) -> bool:
    answer = httpx2.get(f"{url}/v1/groups/{group}", timeout=60)
    return bool(answer.status_code == 200 and answer.json()["partitions"][0]["paused"])


def test_an_ensemble_that_is_lost_loses_nothing_that_a_person_said(
    own_queue: Queue, start_node: Start
) -> None:
    topic = own_queue.log.topic()
    group = group_of(topic)
    node = start_node(own_queue, "a", **ALLOW)
    own_queue.log.append(topic, ["a", "b"])
    with HttpMember(node.url, topic) as member:
        member.poll_until(2)
        call("POST", f"{node.url}/v1/groups/{group}/pause")
        call("PUT", f"{node.url}/v1/groups/tasks", max_attempts=7)
        hook: dict[str, Any] = {"url": HOOK, "topics": [topic.topic], "max_attempts": 3}
        told = call("PUT", f"{node.url}/v1/groups/hooked/webhook", **hook)
        lose(own_queue.zookeeper)
        # The member is in the group again, and the group was paused before it came.
        wait_for(lambda: paused(node.url, group), "the group is there, and paused")
        own_queue.log.append(topic, ["c"])
        assert member.poll(wait_ms=1_500) == []
        wait_for(
            lambda: httpx2.get(f"{node.url}/v1/groups/hooked/webhook").status_code == 200,
            "the webhook is there",
        )
        kept = call("GET", f"{node.url}/v1/groups/hooked/webhook")
        assert (kept["url"], kept["options"]) == (HOOK, told["options"])
        asked: dict[str, Any] = {"topics": [topic.topic], "mode": "queue", "max_attempts": 8}
        refused = call("POST", f"{node.url}/v1/groups/tasks/members", 409, **asked)
        assert refused["code"] == "group_mismatch"
        call("POST", f"{node.url}/v1/groups/{group}/resume")
        assert [record["offset"] for record in member.poll_until(1)][-1:] == [2]


def test_what_was_taken_back_does_not_come_again(own_queue: Queue, start_node: Start) -> None:
    topic = own_queue.log.topic()
    group = group_of(topic)
    node = start_node(own_queue, "a", **ALLOW)
    with HttpMember(node.url, topic) as member:
        member.wait_owned(topic.partitions)
        call("POST", f"{node.url}/v1/groups/{group}/pause")
        call("POST", f"{node.url}/v1/groups/{group}/resume")
        call("PUT", f"{node.url}/v1/groups/hooked/webhook", url=HOOK, topics=[topic.topic])
        call("DELETE", f"{node.url}/v1/groups/hooked/webhook", 204)
        call("PUT", f"{node.url}/v1/groups/tasks", max_attempts=7)
        call("DELETE", f"{node.url}/v1/groups/tasks", 204)
        lose(own_queue.zookeeper)
        wait_for(
            lambda: httpx2.get(f"{node.url}/v1/groups/{group}").status_code == 200,
            "the group is there again",
        )
        assert not paused(node.url, group)
        call("GET", f"{node.url}/v1/groups/hooked/webhook", 404)
        asked: dict[str, Any] = {"topics": [topic.topic], "mode": "queue", "max_attempts": 8}
        call("POST", f"{node.url}/v1/groups/tasks/members", 201, **asked)


def test_what_zookeeper_alone_has_is_taken_over_when_the_format_is_raised(
    own_queue: Queue, start_node: Start
) -> None:
    topic = own_queue.log.topic()
    group = group_of(topic)
    root = own_queue.root
    # As a root of 0.1.0, where nodes change ZooKeeper alone.
    path = Path(root.uri) / FORMAT_PATH
    document = orjson.loads(path.read_bytes())
    path.write_bytes(orjson.dumps({**document, "format": 1, "features": {}}))
    node = start_node(own_queue, "a", **ALLOW)
    with HttpMember(node.url, topic) as member:
        member.wait_owned(topic.partitions)
        call("POST", f"{node.url}/v1/groups/{group}/pause")
        call("PUT", f"{node.url}/v1/groups/hooked/webhook", url=HOOK, topics=[topic.topic])
        assert not root.is_table("group_settings")
        raise_format(root.store, NEWEST)
        settings = GroupSettings(root)
        wait_for(
            lambda: {("pause", group), ("webhook", "hooked")} <= settings.read().keys(),
            "both are in the table",
        )


def test_a_word_of_the_table_takes_the_place_of_an_older_one_in_zookeeper(
    own_queue: Queue, start_node: Start
) -> None:
    """As it is after a node died between the two."""
    topic = own_queue.log.topic()
    node = start_node(own_queue, "a", **ALLOW)
    call("PUT", f"{node.url}/v1/groups/hooked/webhook", url=HOOK, topics=[topic.topic])
    session = Session(own_queue.zookeeper.hosts, own_queue.root.queue_id, "test", FAST)
    session.start()
    try:
        kept = webhook_of(session, "hooked")
        assert kept is not None
        assert membership.group_config(session, "hooked") is not None
        path = session.path("webhooks", "hooked")
        session.call(session.kazoo.delete_async, path)
        wait_for(lambda: webhook_of(session, "hooked") == kept, "it is there again")
    finally:
        session.stop()
