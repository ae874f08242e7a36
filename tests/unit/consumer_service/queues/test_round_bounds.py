"""What a round may hold, and what becomes of a record that is not its taker's any more."""

from __future__ import annotations

import gc
from typing import Any, cast

import pyarrow as pa
import pytest

from consumer_service.ownership.journal import FACT_BYTES, MAX_PENDING_BYTES
from consumer_service.polls.poll_batch import PartitionBatch, QueuePollResult
from consumer_service.queues import taking
from consumer_service.queues.rounds import Ticket
from queue_rules.groups.member_states import MemberState
from queue_rules.queues.attempts import MOST_MOVES, Attempt
from queue_tables.groups.facts import Kind
from serving.front.parking import BLOCKS, Steps, Wake
from tests.unit.consumer_service.queues.test_rounds import World, came, member, places

FAR_OFF_US = 4_000_000_000_000_000


class Scheduled(World):
    """All records are due much later, and each at a time of its own."""

    def read(self, where: Any, offset: int, most: int, size: int) -> pa.Table:
        found = super().read(where, offset, most, size)
        times = [FAR_OFF_US + number for number in found["offset"].to_pylist()]
        place = found.schema.get_field_index("deliver_at")
        return found.set_column(place, "deliver_at", pa.array(times, pa.timestamp("us", "UTC")))


def ended(poll: Steps[QueuePollResult], world: World) -> QueuePollResult:
    """Go on with it until it is answered."""
    while True:
        try:
            next(poll)
        except StopIteration as end:
            result: QueuePollResult = end.value
            return result
        world.take()


@pytest.mark.parametrize(("partitions", "polls"), [(5, 1), (2, 12)])
def test_what_a_round_submits_fits_into_the_journal_whatever_is_parked(
    partitions: int, polls: int
) -> None:
    world = Scheduled(partitions=partitions, records=2 * MOST_MOVES)
    waiting = [world.poll(member(f"m{number}")) for number in range(polls)]
    world.take()
    for poll in waiting:
        assert ended(poll, world).records == []
    while ended(world.poll(member("last")), world).more:
        """It looks again."""
    assert max(map(len, world.submissions)) <= 3 * MOST_MOVES
    assert 3 * MOST_MOVES * FACT_BYTES < MAX_PENDING_BYTES
    parked = [f for facts in world.submissions for f in facts if f.kind is Kind.PARKED]
    assert len(parked) == partitions * world.records


def test_at_most_once_a_record_that_went_to_another_before_its_commit_leaves_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(partitions=2, records=2)
    now = 1_000_000
    monkeypatch.setattr(taking, "wall_micros", lambda: now)
    others: list[QueuePollResult] = []

    def reads_the_second() -> None:
        world.reading = too_slow

    def too_slow() -> None:
        # The first one's time is over before the other partition is read.
        nonlocal now
        now += 3_600_000_000
        poll = world.poll(member("b", delivery="at_most_once", topics=["orders", "x"]), 1)
        world.take()
        others.append(came(poll))

    world.reading = reads_the_second
    poll = world.poll(member("a", delivery="at_most_once"))
    world.take()
    mine = places(came(poll))
    (found,) = others
    assert len(places(found)) == 1
    assert not set(places(found)) & set(mine)
    queue = world.owned[1].queue
    assert queue is not None
    assert (queue.held_by("a"), queue.held_by("b")) == (0, 0)


def test_those_that_a_round_has_no_room_for_come_first_in_the_next_and_wait_for_no_commit() -> None:
    world = World(max_poll_bytes=400)
    world.journal.later = []
    first = [world.poll(member(f"m{number}")) for number in range(4)]
    later: list[Steps[QueuePollResult]] = []
    world.reading = lambda: later.append(world.poll(member("later")))
    while world.work:
        world.take()
    assert len(world.journal.later) > 1, "the next round does not wait for the commit"
    for commit in world.journal.later:
        commit.set_result(None)
    world.journal.later = None
    found = [places(ended(poll, world)) for poll in (*first, *later)]
    assert found == sorted(found), "in the order in which they came"
    assert all(found)


def test_a_poll_that_nobody_waits_for_any_more_takes_nothing() -> None:
    world = World()
    hung_up, superseded, left, stays = (member(name) for name in ("gone", "old", "left", "stays"))
    gone: list[bool] = []
    polls = [
        world.delivery.steps(hung_up, 10, 0, lambda: bool(gone)),
        world.delivery.steps(superseded, 10, 0, lambda: False, after=0),
        world.delivery.steps(left, 10, 0, lambda: False),
        world.delivery.steps(stays, 10, 0, lambda: False),
    ]
    for poll in polls:
        next(poll)
    gone.append(True)
    with superseded.polls.lock:
        superseded.polls.begin(0)
    left.state = MemberState.LEAVING
    world.take()
    assert {fact.member for facts in world.submissions for fact in facts} == {"stays"}
    assert places(came(polls[-1])) == [(0, number) for number in range(10)]


def test_at_most_once_a_poll_given_up_between_take_and_commit_loses_nothing() -> None:
    world = World(partitions=2, records=1)
    poll = world.poll(member("gone", delivery="at_most_once"))
    waits = world.poll(member("stays", delivery="at_most_once"))

    def then_given_up() -> None:
        world.reading = poll.close

    # The first has been served when the second is read for.
    world.reading = then_given_up
    world.take()
    got = [place for one in (waits, world.poll(member("c"))) for place in places(ended(one, world))]
    assert sorted(got) == [(0, 0), (1, 0)]


@pytest.mark.parametrize(("records", "in_a_thread"), [(1_000, False), (1_001, True)])
def test_a_long_answer_is_made_in_a_thread(records: int, in_a_thread: bool) -> None:
    world = World(records=2_000, max_poll_bytes=8 << 20)
    poll = world.poll(member("m", max_in_flight=2_000), records)
    world.take()
    if in_a_thread:
        assert next(poll) is BLOCKS
    assert len(came(poll).records) == records


def test_what_a_poll_has_got_goes_with_it_and_waits_for_no_collector() -> None:
    world = World()
    gc.collect()
    gc.disable()
    try:
        poll = world.poll(member("m"))
        world.take()
        came(poll)
        del poll
        assert not [one for one in gc.get_objects() if isinstance(one, Ticket | PartitionBatch)]
    finally:
        gc.enable()


def test_news_go_to_those_that_may_take_something_and_to_others_when_they_may_again() -> None:
    world = World(records=4)
    full, other, idle = member("a", max_in_flight=2), member("b", max_in_flight=2), member("c")
    for one in (full, other):
        poll = world.poll(one, 2)
        world.take()
        assert len(came(poll).records) == 2
    waiting = {
        one.member_id: world.delivery.steps(one, 10, 60, lambda: False)
        for one in (full, other, idle)
    }
    for steps in waiting.values():
        next(steps)
    world.take()
    # Nothing is there: they wait to be woken.
    wakes = {name: cast("Wake", next(steps).signal) for name, steps in waiting.items()}
    world.records = 5
    world.waiters.news("g")
    assert [name for name, wake in wakes.items() if wake.is_set()] == ["c"]
    next(waiting["c"])
    world.take()
    assert places(came(waiting["c"])) == [(0, 4)]
    # Nobody else waits: of those that hold as much as they may, one looks, and wakes nobody.
    world.records = 7
    world.waiters.news("g")
    assert wakes["a"].is_set()
    next(waiting["a"])
    world.take()
    next(waiting["a"])
    assert not any(wakes[name].is_set() for name in "ab")
    # What it held is done: it is woken, and gets what is there.
    queue = world.owned[0].queue
    assert queue is not None
    for offset in (0, 1):
        begun = queue.begin(offset, 1, 0)
        assert isinstance(begun, Attempt)
        queue.finish_ack(begun)
    for _ in range(2):
        world.waiters.news("g")
    next(waiting["a"])
    world.take()
    assert places(came(waiting["a"])) == [(0, 5), (0, 6)]


def test_one_that_is_full_and_was_woken_passes_the_news_on() -> None:
    world = World(records=2)
    full, idle = member("a", max_in_flight=2), member("b")
    poll = world.poll(full, 2)
    world.take()
    came(poll)
    waits = world.delivery.steps(full, 10, 60, lambda: False)
    next(waits)
    # It is looking when the news come, and has not been told to stand back yet.
    world.records = 3
    world.waiters.enter("g", idle.wake)
    world.waiters.news("g")
    assert not idle.wake.is_set()
    world.take()
    assert idle.wake.is_set()


@pytest.mark.parametrize("given_up", [False, True])
def test_news_for_one_of_two_polls_of_a_member_do_not_take_the_others_place(given_up: bool) -> None:
    world, both, gone = World(records=0), member("m"), [False, False]
    polls = [world.delivery.steps(both, 10, 60, lambda n=n: gone[n]) for n in range(2)]  # type: ignore[misc]
    wakes = []
    for poll in polls:
        next(poll)
        world.take()
        wakes.append(cast("Wake", next(poll).signal))
    if given_up:
        gone[0] = True
        assert came(polls[0]).records == []
    else:
        world.records = 1
        assert world.waiters.news("g")
        assert [wake.is_set() for wake in wakes] == [True, False], "one for each piece of news"
        next(polls[0])
        world.take()
        assert places(came(polls[0])) == [(0, 0)]
    world.records = 2
    assert world.waiters.news("g"), "the other still stands in line"
    assert wakes[1].is_set()
    next(polls[1])
    world.take()
    assert len(came(polls[1]).records) == (2 if given_up else 1)
    assert not world.waiters.waits("g")
