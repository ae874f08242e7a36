"""Queue groups while workers vanish, records are nacked and a node is killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from lakequeue.steps import Step
from tests.support.kinds import one_now
from tests.support.queue_load import Load, run
from tests.support.services.consumer_node import (
    HttpMember,
    NodeProcess,
    Queue,
    node,
    offsets,
    own_queue,
    queue,
    start_node,
)

__all__ = ["node", "own_queue", "queue", "start_node"]
pytestmark = pytest.mark.zookeeper
Start = Callable[..., NodeProcess]
QUEUE = {"mode": "queue", "visibility_timeout_ms": 1_500, "max_attempts": 9}


@pytest.mark.parametrize("key_order", one_now([False, True], True))
def test_every_record_is_acked_once_or_dead_though_workers_and_a_node_die(
    tmp_path: Path, key_order: bool
) -> None:
    verdict = run(Load(key_order=key_order, records=300), tmp_path)
    assert verdict.ok, str(verdict)
    assert verdict.acked > 0
    assert verdict.redelivered > 0
    assert verdict.dead > 0


@pytest.mark.parametrize("step", one_now([Step.JOURNAL_DATA_WRITTEN, Step.JOURNAL_COMMITTED]))
def test_killed_while_delivering_no_attempt_is_repeated(
    queue: Queue, node: NodeProcess, start_node: Start, step: Step
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b"])
    # The first commit of the shard is the take-over's, the second the delivery's.
    dying = start_node(queue, f"delivering-{step}".replace("_", "-"), crash_at=f"{step}:2")
    first = HttpMember(dying.url, topic, options=QUEUE)
    first.join()
    with pytest.raises(httpx2.HTTPError):
        first.poll_until(2)
    assert dying.end() != 0
    with HttpMember(node.url, topic, options=QUEUE) as heir:
        heir.wait_owned(1)
        records = heir.poll_until(2)
        assert offsets(records) == [0, 1]
        # Committed: that attempt is skipped, for it may have been seen. Not committed: it was not.
        skipped = step is Step.JOURNAL_COMMITTED
        assert {r["attempt"] for r in records} == {2 if skipped else 1}


@pytest.mark.parametrize(
    "step", one_now([Step.JOURNAL_DATA_WRITTEN, Step.JOURNAL_COMMITTED, Step.QUEUE_SETTLED])
)
@pytest.mark.parametrize("by_a_poll", one_now([False, True]))
def test_killed_while_acking_it_counts_as_a_whole_or_not(
    queue: Queue, node: NodeProcess, start_node: Start, step: Step, by_a_poll: bool
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b", "c"])
    count = "" if step is Step.QUEUE_SETTLED else ":3"
    name = f"acking-q-{step}-{by_a_poll}".replace("_", "-")
    dying = start_node(queue, name, crash_at=f"{step}{count}")
    first = HttpMember(dying.url, topic, options=QUEUE)
    first.join()
    records = first.poll_until(3)
    path = f"{first.path}/{'records' if by_a_poll else 'acks'}"
    with pytest.raises(httpx2.HTTPError):
        first.client.post(path, json={"acks": [record["receipt"] for record in records[:2]]})
    dying.end()
    lost = step is Step.JOURNAL_DATA_WRITTEN
    expected = [0, 1, 2] if lost else [2]
    with HttpMember(node.url, topic, options=QUEUE) as heir:
        heir.wait_owned(1)
        assert offsets(heir.poll_until(len(expected))) == expected


@pytest.mark.parametrize("step", [Step.QUEUE_DELIVERED])
def test_killed_before_the_answer_the_delivery_counts_and_goes_to_another_at_its_deadline(
    queue: Queue, node: NodeProcess, start_node: Start, step: Step
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a"])
    dying = start_node(queue, "before-answer", crash_at=step)
    first = HttpMember(dying.url, topic, options=QUEUE)
    first.join()
    with pytest.raises(httpx2.HTTPError):
        first.poll_until(1)
    dying.end()
    with HttpMember(node.url, topic, options=QUEUE) as heir:
        heir.wait_owned(1)
        assert [(r["offset"], r["attempt"]) for r in heir.poll_until(1)] == [(0, 2)]
