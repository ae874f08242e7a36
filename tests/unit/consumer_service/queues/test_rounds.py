"""Polls that come together are served together, each as if it had come by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from consumer_service.members import Member
from consumer_service.ownership.journal import Entry
from consumer_service.ownership.owned_partition import OwnedPartition, OwnedPartitions
from consumer_service.ownership.partition_states import PartitionState
from consumer_service.polls.poll_batch import QueuePollResult
from consumer_service.queues import rounds
from consumer_service.queues.acks import QueueAcks
from consumer_service.queues.delivery import QueueDelivery
from consumer_service.queues.due_timer import DueTimer
from consumer_service.queues.rounds import Round, Rounds
from consumer_service.queues.waiters import Waiters
from consumer_service.reading.undecodable import ignore
from lakequeue.errors import Overloaded, StorageUnavailable
from lakequeue.records import Partition, TopicId
from lakequeue.wire import JoinRequest
from queue_rules.groups.member_states import Liveness, MemberState
from queue_rules.queues.partition import QueuePartition
from queue_rules.queues.retry_policy import RetryPolicy
from queue_tables.groups.facts import Fact, Key, Kind
from queue_tables.groups.record_states import RecordStates
from serving.front.parking import Steps
from tests.unit.consumer_service.queues.test_queue_delivery import Journal, rows

RECORDS = 100
Work = Callable[[], object]


def member(name: str, **asked: Any) -> Member:
    request = JoinRequest(**{"topics": ["orders"], **asked})
    made = Member("g", name, request, 6_000, Liveness(6, 60, 0, 0))
    made.state = MemberState.ACTIVE
    return made


@dataclass
class World:
    """Partitions of so many records at one node; rounds take when the test says so."""

    partitions: int = 1
    records: int = RECORDS
    max_poll_bytes: int = 1 << 20
    journal: Journal = field(default_factory=Journal)
    submissions: list[list[Fact]] = field(default_factory=list)
    work: list[Work] = field(default_factory=list)
    unreadable: set[int] = field(default_factory=set)
    reads: list[int] = field(default_factory=list)
    reading: Work = lambda: None
    """Happens when records are read next."""

    def __post_init__(self) -> None:
        lease = cast("Any", SimpleNamespace(epoch=1, trusted=lambda: True))
        self.owned: list[OwnedPartition] = []
        owned_partitions, self.waiters = OwnedPartitions(), Waiters()
        for number in range(self.partitions):
            key = Key("g", TopicId("t"), Partition(number))
            one = OwnedPartition(key, "orders", "n", PartitionState.OWNED, lease, mode="queue")
            one.queue = QueuePartition(RetryPolicy(max_attempts=9))
            owned_partitions.add(one)
            self.owned.append(one)
        timer = DueTimer(owned_partitions.queues, self.waiters)
        parts: Any = (
            SimpleNamespace(end=lambda _: self.records, read=self.read, read_one=self.read_one),
            owned_partitions,
            SimpleNamespace(submit=self.submit, rush=self.journal.rush),
            self.waiters,
            timer,
            self.max_poll_bytes,
            lambda: None,
            ignore,
            self.work.append,
        )
        self.delivery = QueueDelivery(*parts)
        acks: Any = (parts[2], owned_partitions, self.waiters, timer, None, None, lambda: None)
        self.acks = QueueAcks(*acks)

    def submit(self, facts: list[Fact]) -> tuple[Entry, Any]:
        self.submissions.append(facts)
        return self.journal.submit(facts)

    def read(self, where: Any, offset: int, most: int, _bytes: int) -> pa.Table:
        self.reads.append(where.partition)
        reading, self.reading = self.reading, lambda: None
        reading()
        if where.partition in self.unreadable:
            raise StorageUnavailable("away")
        return rows(offset, min(self.records, offset + most), 0)

    def read_one(self, where: Any, offset: int) -> pa.Table:
        return self.read(where, offset, 1, 1)

    def poll(self, who: Member, most: int = 10) -> Steps[QueuePollResult]:
        """A poll that has asked."""
        steps = self.delivery.steps(who, most, 0, lambda: False)
        next(steps)
        return steps

    def take(self) -> None:
        """Let those take that wait for it."""
        work, self.work[:] = list(self.work), []
        for one in work:
            one()


def came(steps: Steps[QueuePollResult]) -> QueuePollResult:
    with pytest.raises(StopIteration) as end:
        next(steps)
    return cast("QueuePollResult", end.value.value)


def places(found: QueuePollResult) -> list[tuple[int, int]]:
    return [(owned.key.partition, offset) for owned, _, some in found.taken for offset, _ in some]


def test_polls_that_come_together_are_committed_by_one_submission_and_share_nothing() -> None:
    world = World(partitions=4)
    polls = [world.poll(member(f"m{number}")) for number in range(8)]
    world.take()
    assert len(world.submissions) == 1
    found = [places(came(poll)) for poll in polls]
    assert [len(some) for some in found] == [10] * 8
    assert len({place for some in found for place in some}) == 80
    delivered = [fact for fact in world.submissions[0] if fact.kind is Kind.DELIVERED]
    assert {fact.member for fact in delivered} == {f"m{number}" for number in range(8)}
    assert sum((fact.end_offset or 0) - (fact.offset or 0) for fact in delivered) == 80


def test_polls_that_come_while_others_take_are_served_by_the_next_round() -> None:
    world = World()
    first = world.poll(member("a"))
    (take,) = world.work
    meanwhile: list[Steps[QueuePollResult]] = []
    world.reading = lambda: meanwhile.extend(world.poll(member(name)) for name in ("b", "c"))
    world.work.clear()
    take()
    assert len(world.work) == 1, "the one that takes has them taken for"
    world.take()
    assert len(world.submissions) == 2
    assert [len(came(poll).records) for poll in (first, *meanwhile)] == [10, 10, 10]


def test_what_is_there_is_shared_fairly_by_the_polls_of_a_round() -> None:
    world = World(records=8)
    who = [member(f"m{number}") for number in range(4)]
    polls = [world.poll(one) for one in who]
    world.take()
    assert [len(came(poll).records) for poll in polls] == [2, 2, 2, 2]


def test_nobody_gets_more_than_his_limit_by_a_round() -> None:
    world = World()
    who = member("m", max_in_flight=15)
    polls = [world.poll(who) for _ in range(3)]
    world.take()
    assert [len(came(poll).records) for poll in polls] == [10, 5, 0]


def test_at_most_once_and_others_go_together_and_each_is_committed_as_it_asked() -> None:
    world = World()
    polls = [world.poll(member("a", delivery="at_most_once")), world.poll(member("b"))]
    world.take()
    assert len(world.submissions) == 1
    assert [came(poll).records[0]["offset"] for poll in polls] == [0, 10]
    assert [(f.kind, f.offset) for f in world.submissions[0]] == [
        (Kind.ACKED, 0),
        (Kind.DELIVERED, 10),
    ]
    queue = world.owned[0].queue
    assert queue is not None
    assert (queue.held_by("a"), queue.held_by("b")) == (0, 10)


def test_a_partition_that_cannot_be_read_fails_one_poll_and_the_others_take_elsewhere() -> None:
    world = World(partitions=2, unreadable={1})
    # They begin with the second, as they poll for the first time.
    polls = [world.poll(member(f"m{number}")) for number in range(6)]
    world.take()
    with pytest.raises(StorageUnavailable):
        next(polls[0])
    assert [partition for poll in polls[1:] for partition, _ in places(came(poll))] == [0] * 50
    assert world.reads.count(1) == 1
    world.unreadable.clear()
    again = [world.poll(member(f"n{number}")) for number in range(6)]
    world.take()
    found = [place for poll in again for place in places(came(poll))]
    assert found == [(1, number) for number in range(60)]


def test_a_poll_given_up_before_its_round_takes_gets_nothing_and_uses_no_attempt_up() -> None:
    world = World()
    gone, stays = world.poll(member("gone")), world.poll(member("stays"))
    gone.close()
    world.take()
    # What it would have got comes back, and goes to the next.
    assert places(came(stays)) == [(0, number) for number in range(10, 20)]
    assert {fact.member for fact in world.submissions[0]} == {"stays"}
    later = world.poll(member("later"))
    world.take()
    assert [(r["offset"], r["attempt"]) for r in came(later).records] == [
        (number, 1) for number in range(10)
    ]


def test_a_journal_that_refuses_a_round_uses_no_attempts_up() -> None:
    world = World()
    polls = [world.poll(member(name)) for name in ("a", "b")]
    world.journal.refuses = Overloaded("busy")
    world.take()
    for poll in polls:
        with pytest.raises(Overloaded):
            next(poll)
    world.journal.refuses = None
    again = world.poll(member("c"), most=30)
    world.take()
    assert [(r["offset"], r["attempt"]) for r in came(again).records] == [
        (number, 1) for number in range(30)
    ]


def test_a_round_takes_no_more_than_two_polls_may_and_the_others_get_theirs_all_the_same() -> None:
    world = World(max_poll_bytes=400)
    waiting = [world.poll(member(f"m{number}")) for number in range(8)]
    counts: list[int] = []
    found: list[tuple[int, int]] = []
    while waiting:
        world.take()
        left = []
        for poll in waiting:
            try:
                next(poll)
            except StopIteration as end:
                found += places(end.value)
            else:
                left.append(poll)
        counts.append(len(waiting) - len(left))
        waiting = left
    assert counts[0] < 8, "the others have joined another round"
    assert len(counts) > 1
    assert len(found) == len(set(found)) >= 8


def test_what_is_purged_between_the_take_and_the_commit_is_not_heard_of_again() -> None:
    world = World(partitions=2, records=5)
    first = world.owned[1]

    def purge() -> None:
        # As `Purges` does it, once its fact stands: nobody fetches, as the take there is over.
        assert not first.fetching.locked()
        first.generation += 1
        first.queue = QueuePartition(RetryPolicy(), RecordStates.settled((0, 5)))
        first.unflushed = []

    def then_purge() -> None:
        world.reading = purge

    # The second is read first, and purged while the first is read.
    world.reading = then_purge
    poll = world.poll(member("m"))
    world.take()
    assert places(came(poll)) == [(0, number) for number in range(5)]
    assert {fact.partition for facts in world.submissions for fact in facts} == {0}
    assert first.unflushed == []


class Turns:
    """Rounds whose turns are taken when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(rounds, "boot_seconds", lambda: self.now)
        self.served: list[int] = []
        self.work: list[Work] = []
        self.rounds = Rounds(self.serve, self.work.append)
        self.meanwhile: Work = lambda: None

    def serve(self, served: Round) -> None:
        self.served.append(len(served.tickets))
        self.meanwhile()

    def join(self, count: int = 1, kind: str = "g") -> None:
        for number in range(count):
            one = member(f"m{number}")
            self.rounds.join(kind, one, one.wake, 1)

    def run(self) -> list[int]:
        while self.work:
            self.work.pop(0)()
        served, self.served = self.served, []
        return served


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    return Turns(monkeypatch)


def test_a_lone_poll_waits_for_no_other(turns: Turns) -> None:
    turns.join()
    assert len(turns.work) == 1
    assert turns.run() == [1]


def test_those_that_are_read_in_a_rush_are_one_round(turns: Turns) -> None:
    turns.rounds.rush(True)
    turns.join(5)
    assert turns.work == []
    turns.rounds.rush(False)
    assert turns.run() == [5]
    assert turns.run() == []


def test_a_rush_that_lasts_holds_nobody_up(turns: Turns) -> None:
    turns.rounds.rush(True)
    turns.join(2)
    turns.now += rounds.RUSH_S + 0.001
    turns.join(1, "another")
    assert sorted(turns.run()) == [1, 2]


def test_a_kind_that_always_has_more_lets_others_take_in_between(turns: Turns) -> None:
    turns.join(3 * rounds.MOST)
    turns.join(1, "another")
    assert turns.run() == [rounds.MOST, 1, rounds.MOST, rounds.MOST]


def test_a_round_has_an_end_and_does_not_wait_for_the_rush_when_it_is_full(turns: Turns) -> None:
    turns.rounds.rush(True)
    turns.join(rounds.MOST + 3)
    assert turns.run() == [rounds.MOST]
    turns.rounds.rush(False)
    assert turns.run() == [3]


def test_who_takes_leaves_those_of_a_rush_to_its_end(turns: Turns) -> None:
    def others_come() -> None:
        turns.meanwhile = lambda: None
        turns.rounds.rush(True)
        turns.join(4)

    turns.meanwhile = others_come
    turns.join()
    assert turns.run() == [1]
    turns.rounds.rush(False)
    assert turns.run() == [4]
