"""What a poll of a queue group took and could not hand out goes to others, uncounted."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future
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
from consumer_service.queues.delivery import QueueDelivery
from consumer_service.queues.due_timer import DueTimer
from consumer_service.queues.waiters import Waiters
from consumer_service.reading import encode
from lakequeue.errors import Overloaded, StorageUnavailable
from lakequeue.records import Format, Partition, TopicId
from lakequeue.wire import JoinRequest
from queue_rules.groups.member_states import Liveness, MemberState
from queue_rules.queues.partition import QueuePartition
from queue_rules.queues.retry_policy import RetryPolicy
from queue_tables.groups.facts import Fact, Key, Kind
from serving.front.parking import finish

EXPIRED_AT = 1_000


def rows(first: int, end: int, expired: int) -> pa.Table:
    """Records, of which those below `expired` have expired."""
    offsets = list(range(first, end))
    times = pa.timestamp("us", "UTC")
    nothing = pa.array([None] * len(offsets), times)
    return pa.table(
        {
            "topic_id": ["t"] * len(offsets),
            "topic": ["orders"] * len(offsets),
            "partition": [0] * len(offsets),
            "offset": offsets,
            "key": pa.array([None] * len(offsets), pa.binary()),
            "value": [b"v"] * len(offsets),
            "key_format": [int(Format.TEXT)] * len(offsets),
            "value_format": [int(Format.TEXT)] * len(offsets),
            "headers": pa.array([None] * len(offsets), pa.list_(pa.string())),
            "timestamp": pa.array([0] * len(offsets), times),
            "message_id": [str(n) for n in offsets],
            "deliver_at": nothing,
            "expires_at": pa.array([EXPIRED_AT if n < expired else None for n in offsets], times),
        }
    )


@dataclass
class Journal:
    """Commits at once, or fails as it is told."""

    refuses: Exception | None = None
    fails: Exception | None = None
    facts: list[Fact] = field(default_factory=list)
    meanwhile: Callable[[], object] = lambda: None
    """Happens while the commit is awaited."""
    later: list[Future[object]] | None = None
    """Where commits end when the test says so."""

    def rush(self, on: bool) -> None:
        """Nothing waits."""

    def submit(self, facts: list[Fact]) -> tuple[Entry, Future[object]]:
        self.meanwhile()
        if self.refuses is not None:
            raise self.refuses
        future: Future[object] = Future()
        if self.later is not None:
            self.later.append(future)
        elif self.fails is not None:
            future.set_exception(self.fails)
        else:
            self.facts += facts
            future.set_result(None)
        return Entry(facts), future


class World:
    """One partition of four records at one node."""

    def __init__(self, expired: int = 0, max_attempts: int = 2) -> None:
        self.trusted = True
        self.fails_to_read = False
        self.meanwhile: Callable[[], object] = lambda: None
        """Happens while records are read."""
        lease = SimpleNamespace(epoch=1, trusted=lambda: self.trusted)
        key = Key("g", TopicId("t"), Partition(0))
        self.owned = OwnedPartition(
            key, "orders", "n", PartitionState.OWNED, cast("Any", lease), mode="queue"
        )
        self.owned.queue = self.queue = QueuePartition(RetryPolicy(max_attempts=max_attempts))
        self.expired = expired
        owned_partitions, waiters, self.journal = OwnedPartitions(), Waiters(), Journal()
        owned_partitions.add(self.owned)
        self.member = Member("g", "m", JoinRequest(topics=["orders"]), 6_000, Liveness(6, 60, 0, 0))
        self.member.state = MemberState.ACTIVE
        timer = DueTimer(owned_partitions.queues, waiters)
        tailer = SimpleNamespace(end=lambda _: 4, read=self.read, read_one=self.read_one)
        self.owned_partitions = owned_partitions
        parts: Any = (tailer, owned_partitions, self.journal, waiters, timer, 1 << 20, lambda: None)
        self.delivery = QueueDelivery(*parts)

    def read(self, _where: object, offset: int, most: int, _bytes: int) -> pa.Table:
        self.meanwhile()
        if self.fails_to_read:
            raise StorageUnavailable("away")
        return rows(offset, min(4, offset + most), self.expired)

    def read_one(self, where: object, offset: int) -> pa.Table:
        return self.read(where, offset, 1, 1)

    def poll(self) -> QueuePollResult:
        return finish(self.delivery.steps(self.member, 10, 0, lambda: False))

    def attempts(self) -> list[tuple[int, int]]:
        return [(r["offset"], r["attempt"]) for r in self.poll().records]


FIRST = [(0, 1), (1, 1), (2, 1), (3, 1)]


def test_what_is_due_goes_before_what_is_new_of_every_partition() -> None:
    world = World(max_attempts=9)
    for number in (1, 2):
        key = world.owned.key._replace(partition=Partition(number))
        other = OwnedPartition(
            key, "orders", "n", PartitionState.OWNED, world.owned.lease, mode="queue"
        )
        other.queue = QueuePartition(RetryPolicy(max_attempts=9))
        world.owned_partitions.add(other)
    first = world.poll().records
    assert len(first) == 10
    for owned in world.owned_partitions.of_group("g"):
        assert owned.queue is not None
        owned.queue.give_back([(0, 1)])
    again = world.poll().records
    assert [r["offset"] for r in again if r["attempt"] == 2] == [0, 0, 0]
    assert [r["attempt"] for r in again[:3]] == [2, 2, 2]


def test_what_is_being_committed_when_a_pause_is_heard_does_not_leave_and_its_attempt_counts() -> (
    None
):
    world = World()
    world.journal.meanwhile = lambda: setattr(world.owned, "paused", True)
    assert world.attempts() == []
    assert world.attempts() == [], "nor later"
    world.owned.paused = False
    world.journal.meanwhile = lambda: None
    assert world.attempts() == [(n, 2) for n in range(4)]


def test_at_most_once_what_is_committed_as_done_leaves_though_a_pause_is_heard() -> None:
    world = World()
    world.member.request.delivery = "at_most_once"
    world.journal.meanwhile = lambda: setattr(world.owned, "paused", True)
    assert world.attempts() == FIRST, "else it would be lost"


@pytest.mark.parametrize("fails", [False, True])
def test_at_most_once_nobody_else_gets_what_is_being_committed_as_done(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    world.member.request.delivery = "at_most_once"
    awaited: Future[object] = Future()
    monkeypatch.setattr(world.journal, "submit", lambda facts: (Entry(facts), awaited))
    poll = world.delivery.steps(world.member, 10, 0, lambda: False)
    next(poll)
    # While it is awaited the consumer leaves, and another one polls.
    world.queue.member_gone("m")
    monkeypatch.undo()
    assert world.attempts() == []
    if fails:
        awaited.set_exception(Overloaded("busy"))
        with pytest.raises(Overloaded):
            finish(poll)
        assert world.attempts() == FIRST
    else:
        awaited.set_result(None)
        assert [(r["offset"], r["attempt"]) for r in finish(poll).records] == FIRST
        assert world.queue.open == 0
        assert world.attempts() == []


def test_a_poll_may_say_how_long_its_records_are_kept() -> None:
    world = World()
    world.member.visibility_ms = 60_000_000
    records = world.poll().records
    (fact,) = [f for f in world.journal.facts if f.kind is Kind.DELIVERED]
    assert {r["deadline"] for r in records} == {fact.until}
    due = world.queue.next_due()
    assert due == fact.until, "and no sooner: the group's 30 s are nothing to it"


def test_who_leaves_while_he_polls_gets_nothing_that_would_rest_with_him() -> None:
    world = World()

    def leave() -> None:
        world.member.state = MemberState.LEAVING
        world.queue.member_gone("m")

    world.meanwhile = leave
    assert world.attempts() == []
    world.meanwhile = lambda: None
    world.member.state = MemberState.ACTIVE
    assert world.attempts() == FIRST


@pytest.mark.parametrize("how", ["refuses", "fails"])
def test_a_journal_that_fails_uses_no_attempts_up(how: str) -> None:
    world = World()
    setattr(world.journal, how, Overloaded("busy"))
    for _ in range(5):
        with pytest.raises(Overloaded):
            world.poll()
    setattr(world.journal, how, None)
    assert world.attempts() == FIRST
    assert not world.queue.dying


def test_a_log_that_cannot_be_read_uses_no_attempts_up() -> None:
    world = World()
    world.poll().take_back()
    world.fails_to_read = True
    for _ in range(5):
        with pytest.raises(StorageUnavailable):
            world.poll()
    world.fails_to_read = False
    assert world.attempts() == [(n, 2) for n in range(4)]


@pytest.mark.parametrize("when", ["before", "during"])
def test_what_was_taken_while_the_lease_was_in_doubt_goes_out_once_it_is_trusted(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    if when == "before":
        world.trusted = False
    else:
        submit = world.journal.submit

        def commit(facts: list[Fact]) -> tuple[Entry, Future[object]]:
            world.trusted = False
            return submit(facts)

        monkeypatch.setattr(world.journal, "submit", commit)
    assert world.attempts() == []
    monkeypatch.undo()
    world.trusted = True
    assert world.attempts() == FIRST


@pytest.mark.parametrize("how", ["refuses", "fails", "trusted"])
def test_that_records_have_expired_is_said_until_it_stands(how: str) -> None:
    world = World(expired=2)
    if how == "trusted":
        world.trusted = False
        world.poll()
        world.trusted = True
    else:
        setattr(world.journal, how, Overloaded("busy"))
        with pytest.raises(Overloaded):
            world.poll()
        setattr(world.journal, how, None)
    assert world.attempts() == [(2, 1), (3, 1)]
    said = [(f.offset, f.end_offset) for f in world.journal.facts if f.kind is Kind.EXPIRED]
    assert said == [(0, 2)]
    assert not world.owned.unflushed


def cannot_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record at offset 2."""
    read = encode._all_of

    def unforeseen(table: pa.Table) -> list[dict[str, Any]]:
        if 2 in table["offset"].to_pylist():
            raise KeyError("nobody thought of it")
        return read(table)

    monkeypatch.setattr(encode, "_all_of", unforeseen)


def test_what_cannot_be_read_goes_to_the_dead_letters_and_the_others_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    cannot_read(monkeypatch)
    assert world.attempts() == [(0, 1), (1, 1), (3, 1)]
    (condemned,) = world.queue.dying.values()
    assert (condemned.offset, condemned.reason, condemned.written) == (2, "undecodable", False)
    assert world.attempts() == [], "it does not come again"
    assert world.queue.held_by("m") == 3


def test_a_group_that_skips_what_cannot_be_read_settles_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.owned.options = '{"undecodable": "skip"}'
    cannot_read(monkeypatch)
    assert world.attempts() == [(0, 1), (1, 1), (3, 1)]
    assert not world.queue.dying
    assert world.queue.held_by("m") == 3
    assert world.attempts() == [], "it does not come again"
    acked = [(f.offset, f.attempt) for f in world.journal.facts if f.kind is Kind.ACKED]
    assert acked == [(2, 1)], "and that is durable"


@pytest.mark.parametrize("policy", ["tombstone", "skip"])
def test_what_cannot_be_read_is_handed_out_or_not_at_most_once(
    monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    world = World()
    world.owned.options = json.dumps({"undecodable": policy})
    world.member.request.delivery = "at_most_once"
    cannot_read(monkeypatch)
    some = [0, 1, 3] if policy == "skip" else [0, 1, 2, 3]
    assert [r["offset"] for r in world.poll().records] == some
    assert world.poll().records == []


def test_a_group_that_takes_tombstones_gets_what_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.owned.options = '{"undecodable": "tombstone"}'
    cannot_read(monkeypatch)
    records = world.poll().records
    assert [r["offset"] for r in records] == [0, 1, 2, 3]
    assert (records[2]["value"], records[2]["undecodable"][:8]) == (None, "KeyError")
    assert not world.queue.dying


def test_what_was_read_ahead_does_not_leave_once_it_may_have_been_erased() -> None:
    world, reads = World(), [0]

    def count() -> None:
        reads[0] += 1

    world.meanwhile = count

    def poll() -> list[int]:
        found = finish(world.delivery.steps(world.member, 1, 0, lambda: False))
        return [record["offset"] for record in found.records]

    assert [poll(), poll(), reads] == [[0], [1], [1]], "read ahead once"
    with world.owned.fetching:
        world.owned_partitions.read_anew()
    assert [poll(), reads] == [[2], [2]]
