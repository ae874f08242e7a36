"""Acks that come with a poll are durable before its answer, and make room for what it takes."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from consumer_service.polls.poll_batch import QueuePollResult
from consumer_service.queues.acks import Change
from consumer_service.queues.brought import Brought
from lakequeue.errors import StorageUnavailable
from lakequeue.wire import AckRequest
from queue_tables.groups.facts import Kind
from serving.front.parking import Steps
from tests.unit.consumer_service.queues.test_rounds import World, came, member


def brought(world: World, found: QueuePollResult) -> Brought:
    """The acks of all that was found."""
    receipts = [record["receipt"] for record in found.records]
    changes: list[Change] = []
    steps = world.acks.outcome("g", AckRequest(acks=receipts), {}, changes, brief=True)
    return Brought(steps, changes)


def polls_again(
    world: World,
) -> tuple[Brought, Steps[QueuePollResult], list[Future[object]]]:
    """A member that may have ten, and has them: its acks of all, the poll that brings them, and
    what is on its way into the journal."""
    who = member("m", max_in_flight=10)
    first = world.poll(who)
    world.take()
    acks = brought(world, came(first))
    later = world.journal.later = []
    second = world.delivery.steps(who, 10, 0, lambda: False, None, acks)
    next(second)
    world.take()
    return acks, second, later


def test_what_a_poll_acks_counts_no_more_and_is_submitted_before_what_it_takes() -> None:
    world = World()
    acks, second, (acked, taken) = polls_again(world)
    assert [(facts[0].kind, facts[0].offset) for facts in world.submissions[1:]] == [
        (Kind.ACKED, 0),
        (Kind.DELIVERED, 10),
    ]
    taken.set_result(None)
    until = next(second)
    assert not until.minds, "the acks are not durable yet"
    acked.set_result(None)
    assert [record["offset"] for record in came(second).records] == list(range(10, 20))
    assert world.owned[0].queue is not None
    assert world.owned[0].queue.held == {"m": 10}
    assert acks.answer is not None
    assert (acks.answer.settled, acks.answer.refused) == ([], [])


def test_nothing_leaves_if_the_acks_that_came_with_the_poll_do_not_become_durable() -> None:
    world = World()
    acks, second, (acked, taken) = polls_again(world)
    taken.set_result(None)
    acked.set_exception(StorageUnavailable("away"))
    with pytest.raises(StorageUnavailable):
        next(second)
    queue = world.owned[0].queue
    assert queue is not None
    assert acks.failed
    assert (queue.held, queue.returned) == ({"m": 10}, 10), "it has the first ten, as before"
