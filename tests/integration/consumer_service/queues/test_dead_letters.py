"""Dead letters, with a real ingest node and the order job without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest

from coordination.embedded import EmbeddedZooKeeper
from lakequeue import Admin, Consumer
from lakequeue.steps import Step
from lakequeue.wire import DeadLetterPlace
from queue_tables.schema.topic_rules import Topic
from queue_tables.topics import TopicStore
from tests.support.kinds import one_now
from tests.support.services.consumer_node import (
    HttpMember,
    NodeProcess,
    Queue,
    describe,
    open_queue,
)
from tests.support.services.ingest_service import IngestService
from tests.support.services.order_thread import ordering
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper
Start = Callable[..., NodeProcess]


@pytest.fixture(scope="module")
def queue(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[Queue]:
    """A queue of this module's own: its log has one committer, the order job."""
    yield from open_queue(tmp_path_factory.mktemp("dead"), zookeeper)


@pytest.fixture(scope="module")
def node(queue: Queue) -> Iterator[NodeProcess]:
    """A node of it."""
    shared = NodeProcess(queue, "shared-dead")
    yield shared
    shared.kill()


@pytest.fixture(scope="module")
def ingest(queue: Queue) -> Iterator[IngestService]:
    """An ingest node that consumer-service nodes find, and somebody who orders."""
    service = IngestService(Path(queue.root.uri), "--zookeeper", queue.zookeeper.hosts)
    with service, ordering(queue.root, epoch=9):
        yield service


def a_topic(queue: Queue, ingest: IngestService, name: str, **config: object) -> Topic:
    """A topic with one record."""
    ingest.create(name, partitions=1, **config)
    records = [{"key": "k", "value": "bad", "headers": {"trace": "bad"}}]
    answer = ingest.send(records, name, "?wait=ordered&timeout_ms=30000")
    assert answer.status_code == 200, answer.text
    return TopicStore(queue.root).get(name)


def worker(url: str, topic: Topic, **options: object) -> HttpMember:
    return HttpMember(url, topic, options={"mode": "queue", "backoff_ms": 0, **options})


def kill_all(member: HttpMember, attempts: int) -> None:
    """Nack one record until it is dead."""
    for attempt in range(1, attempts + 1):
        record = member.poll_until(1, 1)[0]
        assert record["attempt"] == attempt
        nack = {"receipt": record["receipt"], "reason": f"no {attempt}"}
        assert member.post(nacks=[nack]).status_code == 200


def test_after_its_last_attempt_a_record_is_in_the_dead_letter_topic(
    queue: Queue, node: NodeProcess, ingest: IngestService
) -> None:
    topic = a_topic(queue, ingest, "dying")
    with worker(node.url, topic, max_attempts=2) as member:
        kill_all(member, 2)
        wait_for(lambda: describe(node.url, member.group)[0]["lag"] == 0, "it is dead")
        assert member.poll(wait_ms=50) == []
    with Consumer("dying.dlq", group="undertaker", urls=node.url) as consumer:
        letter = next(consumer)
        assert (letter.key, letter.value) == ("k", "bad")
        said = {name: (value or b"").decode() for name, value in letter.headers}
        assert said["trace"] == "bad"
        assert said["lakequeue-topic"] == "dying"
        assert said["lakequeue-group"] == "of-dying"
        assert (said["lakequeue-partition"], said["lakequeue-offset"]) == ("0", "0")
        assert (said["lakequeue-attempts"], said["lakequeue-reason"]) == ("2", "max_attempts")
        assert said["lakequeue-first-delivered-at"] < said["lakequeue-dead-at"]
    with Admin(ingest.ready["url"], node.url) as admin:
        assert admin.redrive("dying.dlq").redriven == 1
        wait_for(lambda: admin.browse("dying", 0).end_offset == 2, "it is back")
        back = admin.record("dying", 0, 1)
        assert (back.key, back.value, back.headers) == ("k", "bad", [("trace", b"bad")])


def test_expired_records_go_there_if_the_topic_says_so(
    queue: Queue, node: NodeProcess, ingest: IngestService
) -> None:
    topic = a_topic(queue, ingest, "short-lived", ttl_ms=1, on_expired="dead_letter")
    with worker(node.url, topic) as member:
        member.wait_owned(1)
        assert member.poll(wait_ms=500) == []
        wait_for(lambda: describe(node.url, member.group)[0]["lag"] == 0, "it is dead")
    with Consumer("short-lived.dlq", group="undertaker-2", urls=node.url) as consumer:
        said = dict(next(consumer).headers)
        assert said["lakequeue-reason"] == b"expired"
        assert said["lakequeue-first-delivered-at"] == b""


@pytest.mark.parametrize("step", one_now([Step.DEAD_DYING, Step.DEAD_SENT, Step.DEAD_SETTLED]))
def test_killed_at_a_step_it_is_in_the_dead_letter_topic_once(
    queue: Queue, node: NodeProcess, ingest: IngestService, start_node: Start, step: Step
) -> None:
    name = f"dies-{step}".replace("_", "-")
    topic = a_topic(queue, ingest, name)
    dying = start_node(queue, f"{name}-node", crash_at=step)
    with worker(dying.url, topic, max_attempts=1) as member:
        with suppress(httpx2.HTTPError):  # it may die before it answers
            kill_all(member, 1)
        assert dying.end() != 0
    with worker(node.url, topic) as heir:
        heir.wait_owned(1)
        wait_for(lambda: describe(node.url, heir.group)[0]["lag"] == 0, "it is dead")
        assert heir.poll(wait_ms=50) == []
    with Admin(consumer_urls=node.url) as admin:
        found = admin.status(heir.group, name, 0, 0)
        assert (found.status, found.attempt, found.reason) == ("dead", 1, "max_attempts")
        assert found.dead_letter == DeadLetterPlace(topic=f"{name}.dlq", partition=0, offset=0)
    letters = TopicStore(queue.root).get(f"{name}.dlq")
    with HttpMember(node.url, letters, group=f"{name}-undertaker") as undertaker:
        (letter,) = undertaker.poll_until(1)
        assert {"key": "lakequeue-nack-reason", "value": "no 1"} in letter["headers"]
        assert undertaker.poll(wait_ms=300) == []


def test_a_letter_that_its_topic_refuses_is_said_and_sent_when_the_limit_is_raised(
    queue: Queue, node: NodeProcess, ingest: IngestService
) -> None:
    ingest.create("small", partitions=1, max_record_bytes=1)
    topic = a_topic(queue, ingest, "refused", dead_letter_topic="small")
    with worker(node.url, topic, max_attempts=1) as member, Admin(ingest.ready["url"]) as admin:
        kill_all(member, 1)

        def why() -> str:
            return str(describe(node.url, member.group)[0]["dying_because"] or "")

        wait_for(lambda: "at most 1 are taken" in why(), "it is said")
        row = describe(node.url, member.group)[0]
        assert row["dying_since"] > 1_700_000_000_000_000
        metrics = httpx2.get(f"{node.url}/metrics").text
        of_group = f'{{group="{member.group}"}}'
        assert f"consumer_dead_letters_refused_seconds{of_group}" in metrics
        assert f"consumer_dead_letters_total{of_group}" not in metrics
        admin.alter_topic("small", max_record_bytes=1_000)
        wait_for(lambda: describe(node.url, member.group)[0]["lag"] == 0, "it is sent")
        assert why() == ""
        metrics = httpx2.get(f"{node.url}/metrics").text
        assert f"consumer_dead_letters_total{of_group} 1.0" in metrics


def test_a_schema_of_a_dead_letter_topic_does_not_refuse_what_died(
    queue: Queue, node: NodeProcess, ingest: IngestService
) -> None:
    ingest.create("strict", partitions=1, value_schema='{"type": "object"}')
    topic = a_topic(queue, ingest, "sloppy", dead_letter_topic="strict")
    with worker(node.url, topic, max_attempts=1) as member:
        kill_all(member, 1)
        wait_for(lambda: describe(node.url, member.group)[0]["lag"] == 0, "it is dead")
    with Consumer("strict", group="strict", urls=node.url) as consumer:
        assert next(consumer).value == "bad"


def test_the_longest_name_of_a_topic_has_a_dead_letter_topic(
    queue: Queue, node: NodeProcess, ingest: IngestService
) -> None:
    topic = a_topic(queue, ingest, "x" * 249)
    options = {"mode": "queue", "backoff_ms": 0, "max_attempts": 1}
    with HttpMember(node.url, topic, "of-the-longest", options) as member:
        kill_all(member, 1)
        wait_for(lambda: describe(node.url, member.group)[0]["lag"] == 0, "it is dead")
