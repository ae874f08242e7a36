"""Acks for what was deleted are refused for good: nobody waits for them to be taken."""

from __future__ import annotations

from collections.abc import Callable

import httpx2
import pytest

from lakequeue import Admin
from queue_tables.topics import TopicStore
from tests.support.services.consumer_node import HttpMember, NodeProcess, Queue, Records
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper


def refused_for_good(ack: Callable[[], httpx2.Response]) -> None:
    """At first it may still be taken: a node hears of it a moment later."""
    answers: list[httpx2.Response] = []

    def is_refused() -> bool:
        answers.append(ack())
        return answers[-1].status_code >= 400

    wait_for(is_refused, "it is refused", every_s=0.1)
    assert answers[-1].status_code in {404, 410}, answers[-1].text
    assert answers[-1].json()["retryable"] is False


@pytest.mark.parametrize("mode", ["stream", "queue"])
def test_of_a_topic(queue: Queue, node: NodeProcess, mode: str) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b"])
    with HttpMember(node.url, topic, f"{topic.topic}-{mode}", {"mode": mode}) as member:
        records = member.poll_until(2)
        TopicStore(queue.root).delete(topic.topic)
        refused_for_good(lambda: member.ack(records))


@pytest.mark.parametrize("mode", ["stream", "queue"])
def test_of_a_group(queue: Queue, node: NodeProcess, mode: str) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b"])
    with HttpMember(node.url, topic, f"{topic.topic}-{mode}", {"mode": mode}) as member:
        records: Records = member.poll_until(2)
        member.leave()
        with Admin(consumer_urls=node.url) as admin:
            wait_for(lambda: not admin.group(member.group).members, "nobody is in it")
            admin.delete_group(member.group)
        refused_for_good(lambda: member.ack(records))
