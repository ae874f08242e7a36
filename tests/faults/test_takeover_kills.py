"""A consumer-service node dies at each step of taking over and committing.

Whatever the step: what was acked with 200 is not delivered again, everything else is, and the
position never goes backwards.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import httpx2
import pytest

from lakequeue.steps import Step
from tests.support.faults.patching import environ
from tests.support.kinds import one_now
from tests.support.services.consumer_node import (
    HttpMember,
    NodeProcess,
    Queue,
    describe,
    group_of,
    lone_queue,
    node,
    offsets,
    own_queue,
    queue,
    start_node,
)
from tests.support.services.zookeeper import wait_for

__all__ = ["lone_queue", "node", "own_queue", "queue", "start_node"]
pytestmark = pytest.mark.zookeeper
Start = Callable[..., NodeProcess]

TAKEOVER = [s for s in Step if s.startswith("takeover.")]
JOURNAL = [s for s in Step if s.startswith("journal.")]


def heir_gets(url: str, member_of: HttpMember, expected: list[int]) -> None:
    """A new member of the same group, elsewhere, gets exactly these offsets first."""
    with HttpMember(url, member_of.topic) as heir:
        heir.wait_owned(1)
        assert offsets(heir.poll_until(len(expected)))[: len(expected)] == expected


@pytest.mark.parametrize("step", one_now([*TAKEOVER, *JOURNAL]))
def test_killed_while_taking_over(
    queue: Queue, node: NodeProcess, start_node: Start, step: Step
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, [str(i) for i in range(6)])
    with HttpMember(node.url, topic) as first:
        first.ack(first.poll_until(6)[:3])
        first.leave()
    # The second owner dies on its first take-over; its predecessor's shard may be fenced or not.
    dying = start_node(queue, f"dying-{step}".replace("_", "-"), crash_at=step)
    second = HttpMember(dying.url, topic)
    second.join()
    assert dying.end() != 0
    heir_gets(node.url, second, [3, 4, 5])


@pytest.mark.parametrize("step", one_now(JOURNAL))
def test_killed_while_committing_an_ack(
    queue: Queue, node: NodeProcess, start_node: Start, step: Step
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, [str(i) for i in range(6)])
    # The first commit of the shard is the take-over's, the second the acked one, the third dies.
    dying = start_node(queue, f"acking-{step}".replace("_", "-"), crash_at=f"{step}:3")
    first = HttpMember(dying.url, topic)
    first.join()
    records = first.poll_until(6)
    assert first.ack(records[:2]).status_code == 200
    with pytest.raises(httpx2.HTTPError):
        first.ack(records[2:4])
    dying.end()
    # The ack that got no answer may count or not, as a whole; the one with 200 counts.
    committed = 4 if step is Step.JOURNAL_COMMITTED else 2
    heir_gets(node.url, first, list(range(committed, 6)))


def test_killed_under_load(queue: Queue, node: NodeProcess, start_node: Start) -> None:
    topic = queue.log.topic(partitions=2)
    dying = start_node(queue, "loaded")
    acked: dict[int, int] = {0: 0, 1: 0}
    ended = threading.Event()

    def consume() -> None:
        with HttpMember(dying.url, topic) as member:
            while True:
                records = member.poll(50, 500)
                if records and member.ack(records).status_code == 200:
                    for record in records:
                        acked[record["partition"]] = record["offset"] + 1

    def until_it_dies() -> None:
        try:
            consume()
        except (httpx2.HTTPError, AssertionError):
            ended.set()

    consumer = threading.Thread(target=until_it_dies)
    consumer.start()
    total = 0
    while not all(offset > 200 for offset in acked.values()):
        queue.log.append_many(topic, {0: ["x"] * 50, 1: ["y"] * 50})
        total += 50
    dying.kill()
    assert ended.wait(60)
    consumer.join()
    left = sum(total - offset for offset in acked.values())
    with HttpMember(node.url, topic) as heir:
        heir.wait_owned(2)
        records = heir.poll_until(left) if left else []
        for partition in (0, 1):
            mine = [r["offset"] for r in records if r["partition"] == partition]
            # An ack whose answer was lost may have been committed: then it starts behind it.
            start = mine[0] if mine else total
            assert start >= acked[partition]
            assert mine == list(range(start, total))


def test_from_a_death_to_the_next_record_nobody_waits_for_a_clock(
    own_queue: Queue, start_node: Start
) -> None:
    """How soon a survivor delivers after the session's end is the sum of its steps, each once."""
    topic = own_queue.log.topic(partitions=2)
    told = environ("signals_alone")
    # The first to start is the controller as well, so that the survivor has to become it.
    dying, heir = (start_node(own_queue, name, **told) for name in ("dying", "heir"))
    with HttpMember(dying.url, topic) as first, HttpMember(heir.url, topic) as second:
        (theirs,) = first.wait_owned(1)
        (ours,) = second.wait_owned(1)
        own_queue.log.append_many(topic, {theirs: ["x"], ours: ["y"]})
        assert second.ack(second.poll_until(1)).status_code == 200
        epoch = describe(heir.url, second.group)[theirs]["epoch"]
        dying.kill()
        (record,) = second.poll(wait_ms=60_000)
        assert (record["partition"], record["offset"]) == (theirs, 0)
        # The lease was taken once: no fence of our own made us take it anew.
        assert describe(heir.url, second.group)[theirs]["epoch"] == epoch + 1


def test_a_frozen_owner_that_wakes_up_late_is_refused(
    queue: Queue, node: NodeProcess, start_node: Start
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, [str(i) for i in range(6)])
    zombie = start_node(queue, "zombie")
    late = HttpMember(zombie.url, topic)
    late.join()
    records = late.poll_until(6)
    assert late.ack(records[:2]).status_code == 200
    zombie.freeze()
    with HttpMember(node.url, topic) as heir:
        heir.wait_owned(1)
        again = heir.poll_until(4)
        assert offsets(again) == [2, 3, 4, 5]
        zombie.thaw()
        refused = late.ack(records[2:])
        assert refused.status_code in {404, 409, 503}, refused.text
        if refused.status_code == 503:
            assert refused.json()["stored"] == "unknown"
        assert heir.ack(again[:1]).status_code == 200
        wait_for(
            lambda: describe(node.url, group_of(topic))[0]["committed_offset"] == 3,
            "the heir's position stands",
        )
        late.client.close()


@pytest.mark.faults
def test_consumption_stops_without_zookeeper_and_goes_on_when_it_is_back(
    lone_queue: Queue, start_node: Start
) -> None:
    topic = lone_queue.log.topic()
    lone_queue.log.append(topic, ["a", "b"])
    node = start_node(lone_queue, "alone")
    with HttpMember(node.url, topic) as member:
        assert member.ack(member.poll_until(2)).status_code == 200
        lone_queue.zookeeper.kill()
        wait_for(
            lambda: httpx2.get(f"{node.url}/readyz", timeout=30).status_code == 503, "not ready"
        )
        lone_queue.log.append(topic, ["c"])
        assert member.poll(wait_ms=1_500) == []
        joined = httpx2.post(
            f"{node.url}/v1/groups/{group_of(topic)}/members",
            json={"topics": [topic.topic]},
            timeout=30,
        )
        assert (joined.status_code, joined.json()["retryable"]) == (503, True)
        lone_queue.zookeeper.start()
        records = member.poll_until(1)
        assert offsets(records) == [2]
        assert member.ack(records).status_code == 200
