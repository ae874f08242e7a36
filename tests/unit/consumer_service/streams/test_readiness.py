"""A poll looks at few partitions, and finds what a look at all of them would find.

Whatever happens to the partitions of a member: what it is told of them is never old either.
"""

from __future__ import annotations

import json
from concurrent.futures import Future
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from consumer_service.ownership.journal import Entry
from consumer_service.ownership.owned_partition import OwnedPartition, OwnedPartitions
from consumer_service.ownership.partition_states import Cause
from consumer_service.ownership.positions import Position
from consumer_service.polls.served import take_back
from consumer_service.streams.acks import Acks
from consumer_service.streams.delivery import Delivery
from consumer_service.streams.mode import Streams
from consumer_service.streams.poll_result import StreamPollResult
from consumer_service.streams.readiness import Readiness
from lakequeue.errors import LakequeueError, OffsetOutOfRange, StorageUnavailable
from lakequeue.records import Partition, TopicId
from queue_rules.streams.commit_request import CommitRequest
from queue_tables.groups.facts import Fact, Key
from serving.front.parking import finish
from tests.unit.consumer_service.streams.parts_of_streams import log_rows, member

PARTITIONS = st.integers(0, 5)
MINE, THEIRS = "m", "n"


class Log:
    """Ends that nobody has asked for are not known. Of some offsets there is no record."""

    def __init__(self) -> None:
        self.ends = dict.fromkeys(range(6), 0)
        self.firsts = dict.fromkeys(range(6), 0)
        self.asked: set[int] = set()

    def end(self, where: Any) -> int:
        self.asked.add(where.partition)
        return self.ends[where.partition]

    def known_end(self, where: Any) -> int | None:
        return self.ends[where.partition] if where.partition in self.asked else None

    def read(self, where: Any, at: int, _rows: int, _bytes: int) -> pa.Table:
        first, end = self.firsts[where.partition], self.ends[where.partition]
        if at < first:
            raise OffsetOutOfRange("gone", hint="", first_offset=first, end_offset=end)
        rows = log_rows(at, end)
        return rows.filter(pa.array([offset % 4 != 3 for offset in range(at, end)], pa.bool_()))

    def read_some(self, where: Any, at: int, *_: object) -> tuple[pa.Table | None, int]:
        rows = self.read(where, at, 0, 0)
        return (rows if rows.num_rows else None), self.ends[where.partition]

    def cut(self, *_: object) -> None:
        """Memory has nothing."""

    at_hand = cut


class Journal:
    """Holds back what it is given."""

    def __init__(self) -> None:
        self.waiting: list[Future[object]] = []

    def submit(self, facts: list[Fact]) -> tuple[Entry, Future[object]]:
        self.waiting.append(Future())
        return Entry(facts), self.waiting[-1]


class Polls(RuleBasedStateMachine):
    """All that happens to the partitions of two members of a group, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.log, self.journal, self.now = Log(), Journal(), 0.0
        self.partitions = OwnedPartitions()
        log: Any = self.log
        self.acks = Acks(cast("Any", self.journal), self.partitions)
        self.delivery = Delivery(log, self.partitions, 1 << 20, self.acks.pass_on)
        self.readiness = Readiness(log, self.partitions, lambda: self.now)
        self.delivery._readiness = self.readiness
        members = SimpleNamespace(wake=lambda _: None)
        self.streams = Streams(
            cast("Any", members), self.partitions, self.delivery, self.acks, cast("Any", None), log
        )
        self.member = member()
        for number in range(4):
            self.assign(number, MINE, number == 0)
            self.take_over(number, 1, 0)
        self.answers: list[StreamPollResult] = []

    def place(self, number: int) -> OwnedPartition | None:
        return self.partitions.get(Key("g", TopicId("t"), Partition(number)))

    @rule(
        number=PARTITIONS, name=st.sampled_from([MINE, MINE, MINE, THEIRS]), filters=st.booleans()
    )
    def assign(self, number: int, name: str, filters: bool) -> None:
        if self.place(number) is not None:
            return
        key = Key("g", TopicId("t"), Partition(number))
        options = json.dumps({"predicate": "offset < 5"}) if filters and number == 0 else ""
        owned = OwnedPartition(key, "orders", name, options=options)
        owned.move(Cause.ASSIGNED)
        self.partitions.add(owned)

    @rule(number=PARTITIONS, epoch=st.integers(1, 3), back=st.integers(0, 3))
    def take_over(self, number: int, epoch: int, back: int) -> None:
        owned = self.place(number)
        if owned is None or owned.state.label != "leasing":
            return
        owned.lease = cast("Any", SimpleNamespace(epoch=epoch, trusted=lambda: True))
        position = Position(epoch, max(0, self.log.ends[number] - back), make_durable=False)
        for cause in (Cause.LEASED, Cause.FENCED_OTHERS):
            owned.move(cause)
        owned.generation, owned.start = position.generation, position.offset
        self.streams.open(owned, None, position)
        owned.move(Cause.TAKEN)
        self.streams.taken([owned])

    @rule(number=PARTITIONS, then=st.sampled_from(["release", "lose", "fence", "seal"]))
    def give_up(self, number: int, then: str) -> None:
        owned = self.place(number)
        if owned is None:
            return
        match then:
            case "release" if owned.state.label == "owned":
                owned.move(Cause.GIVEN_AWAY)
            case "lose" if owned.state.label != "lost":
                owned.move(Cause.LOST)
            case "fence":
                owned.superseded_by = 9
            case "seal":
                owned.void = True

    @rule(number=PARTITIONS)
    def begin_a_generation(self, number: int) -> None:
        """As a purge does."""
        if (owned := self.place(number)) is not None:
            owned.generation += 1

    @rule(number=PARTITIONS)
    def remove(self, number: int) -> None:
        if (owned := self.place(number)) is not None:
            self.partitions.remove([owned])

    @rule(numbers=st.sets(PARTITIONS, min_size=1), count=st.integers(1, 6))
    def grow(self, numbers: set[int], count: int) -> None:
        for number in numbers:
            self.log.ends[number] += count
        self.streams.grown([owned for n in numbers if (owned := self.place(n)) is not None])

    @rule(number=PARTITIONS)
    def expire(self, number: int) -> None:
        self.log.firsts[number] = self.log.ends[number]

    @rule(number=PARTITIONS, paused=st.booleans())
    def pause(self, number: int, paused: bool) -> None:
        if (owned := self.place(number)) is not None:
            owned.paused = paused

    @rule(number=PARTITIONS)
    def let_go(self, number: int) -> None:
        if (owned := self.place(number)) is not None:
            owned.read_anew()

    @rule(most=st.integers(1, 20), after=st.none() | st.integers(0, 3))
    def poll(self, most: int, after: int | None) -> None:
        self.answers.append(finish(self.delivery.steps(self.member, most, 0, lambda: False, after)))

    @precondition(lambda self: self.answers)
    @rule(at=st.integers(0, 50))
    def lose_an_answer(self, at: int) -> None:
        take_back(self.member, self.answers.pop(at % len(self.answers)))

    @rule()
    def begin_events(self) -> None:
        self.streams.begin_events(self.member, "start")

    @rule(numbers=st.sets(PARTITIONS, min_size=1), back=st.integers(0, 2))
    def ack(self, numbers: set[int], back: int) -> None:
        some = [owned for n in numbers if (owned := self.place(n)) is not None]
        wanted = {
            owned.key: [CommitRequest("orders", None, [], max(0, owned.cursor.delivered - back))]
            for owned in some
        }
        ends = {owned.key: self.log.ends[owned.key.partition] for owned in some}
        # Some may not be owned, or have nothing to commit: the others are on their way.
        with suppress(LakequeueError, StopIteration):
            next(self.acks.commit(MINE, wanted, ends, through=True))

    @precondition(lambda self: self.journal.waiting)
    @rule(stands=st.booleans())
    def settle(self, stands: bool) -> None:
        first = self.journal.waiting.pop(0)
        if stands:
            first.set_result(None)
        else:
            first.set_exception(StorageUnavailable("away"))

    @invariant()
    def few_are_looked_at_and_nothing_is_missed(self) -> None:
        mine = self.partitions.of_member("g", MINE)
        expected = {
            owned
            for owned in mine
            if owned.where.partition not in self.log.asked
            or owned.cursor.delivered < self.log.ends[owned.where.partition]
            or owned.cursor.passes
            or owned.options
        }
        assert set(self.readiness._look(self.member)) == expected

    @invariant()
    def what_is_told_is_as_it_is(self) -> None:
        for name in (MINE, THEIRS):
            mine = self.partitions.of_member("g", name)
            rows = [row for owned in mine if (row := owned.row()) is not None]
            assert self.partitions.told("g", name).rows == rows
            assert mine == [o for o in self.partitions.of_group("g") if o.member == name]


TestPolls = Polls.TestCase
TestPolls.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
