"""A poll of a queue group that is given up while its records are committed."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from lakequeue.errors import StorageUnavailable
from tests.unit.consumer_service.queues.test_queue_delivery import FIRST, World


@pytest.mark.parametrize("how", ["stands", "fails"])
def test_a_poll_given_up_while_its_records_are_committed_leaves_them_to_others(how: str) -> None:
    """Its answer has no room, say. The room is asked for, as it can give them back."""
    world = World()
    commits: list[Future[object]] = []
    world.journal.later = commits
    steps = world.delivery.steps(world.member, 10, 0, lambda: False)
    until = next(steps)
    assert (until.minds, until.gives_back) == (False, True)
    steps.close()
    assert (world.owned.pending, world.queue.held_by("m")) == (1, 0)
    assert world.member.liveness.polls == 0
    again = world.delivery.steps(world.member, 10, 0, lambda: False)
    next(again)
    first, second = commits
    if how == "stands":
        first.set_result(None)
    else:
        first.set_exception(StorageUnavailable("away"))
    second.set_result(None)
    with pytest.raises(StopIteration) as end:
        next(again)
    assert [(r["offset"], r["attempt"]) for r in end.value.value.records] == FIRST
    assert (world.owned.pending, world.queue.held_by("m")) == (0, 4)
    world.journal.later = None
    assert world.attempts() == []


def test_at_most_once_no_poll_is_given_up_while_its_records_are_committed_as_done() -> None:
    """They would be lost."""
    world = World()
    world.member.request.delivery = "at_most_once"
    commits: list[Future[object]] = []
    world.journal.later = commits
    steps = world.delivery.steps(world.member, 10, 0, lambda: False)
    until = next(steps)
    assert (until.minds, until.gives_back) == (False, False)
    commits[0].set_result(None)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert [(r["offset"], r["attempt"]) for r in end.value.value.records] == FIRST
