"""The in-flight set of a queue partition, against a model that is as simple as can be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from queue_rules.queues import attempts
from queue_rules.queues.attempts import Attempt, Move, NewRecord, Refusal
from queue_rules.queues.partition import QueuePartition
from queue_rules.queues.retry_policy import RetryPolicy
from queue_tables.groups.facts import Kind, States, fold
from queue_tables.groups.record_states import NEVER
from queue_tables.groups.record_status import ACKED, EXPIRED, Status, status_in
from tests.support.data.queue_facts import KEY, MS, facts_of, states_of
from tests.support.examples import examples


@dataclass
class Record:
    """A record as the model sees it."""

    new: NewRecord
    state: str = "unseen"
    """unseen, delayed, out (with a consumer), returned, dying, settled"""
    attempt: int = 0
    until: int = 0
    member: str = ""
    reason: str = ""
    ended: Status | None = ACKED
    """Once it is settled; None: retention has removed it, and nobody asks."""
    receipts: set[int] = field(default_factory=set)
    """Every attempt that was ever delivered."""
    unopened: set[int] = field(default_factory=set)
    """Those that nobody has looked at."""
    written: int = 0
    """How many of them the tables know of."""

    @property
    def counted(self) -> int:
        return self.attempt - len(self.unopened)


def each(moves: list[Move]) -> Iterator[Move]:
    """Of each record by itself."""
    for move in moves:
        for offset in range(move.offset, move.end or move.offset + 1):
            yield move._replace(offset=offset, end=0)


WORDS = ["ack", "nack", "nack now", "extend", "lose", "unopened"]


class QueueMachine(RuleBasedStateMachine):
    """Random takes, acks, nacks, extensions, deaths and take-overs; time goes on in between."""

    @initialize(
        key_order=st.booleans(),
        dead_letter_expired=st.booleans(),
        max_attempts=st.integers(1, 3),
        jitter=st.sampled_from([0, 50]),
    )
    def begin(
        self, key_order: bool, dead_letter_expired: bool, max_attempts: int, jitter: int
    ) -> None:
        self.policy = RetryPolicy(10, max_attempts, 4, 7, jitter, key_order, dead_letter_expired)
        self.queue = QueuePartition(self.policy)
        self.random = Random(0)
        self.now = 1_000_000
        self.log: list[Record] = []
        self.states: States = {}

    def commit(self, moves: list[Move]) -> None:
        self.states = fold(self.states, facts_of(moves))

    # -- the model --------------------------------------------------------------------------------

    def pass_deadlines(self) -> None:
        for record in self.log:
            if record.state == "out" and record.until <= self.now:
                record.state = "returned"

    def blocked(self, record: Record) -> bool:
        key = record.new.key_hash
        if not self.policy.key_order or not key:
            return False
        before = self.log[: record.new.offset]
        return any(r.new.key_hash == key and r.state != "settled" for r in before)

    def due(self, record: Record) -> bool:
        """Whether something must happen to the record in a take that has room."""
        if record.state == "returned":
            return True
        if record.state == "parked":
            return record.until <= self.now
        return record.state == "unseen" and not self.blocked(record)

    # -- rules ------------------------------------------------------------------------------------

    @rule(
        key=st.integers(0, 2),
        delay=st.sampled_from([0, 0, 0, 5, 60]),
        ttl=st.sampled_from([None, None, 3, 30]),
    )
    def produce(self, key: int, delay: int, ttl: int | None) -> None:
        deliver_at = self.now + delay * MS if delay else 0
        expires_at = NEVER if ttl is None else self.now + ttl * MS
        self.log.append(Record(NewRecord(len(self.log), key, deliver_at, expires_at)))

    @rule(ms=st.integers(0, 12))
    def wait(self, ms: int) -> None:
        self.now += ms * MS

    @rule(member=st.sampled_from("ab"), most=st.integers(1, 4))
    def take(self, member: str, most: int) -> None:
        self.pass_deadlines()
        again = self.queue.take_again(self.now, member, most)
        new = self.queue.take_new(
            self.now,
            member,
            most - len(again.deliver),
            [record.new for record in self.log[self.queue.scan :]],
        )
        moves = [*each(again.moves), *each(new.moves)]
        delivered = again.deliver + new.deliver
        assert len(delivered) <= most
        given = {one.offset for one in delivered}
        assert len(given) == len(delivered)
        for move in moves:
            self.see(move, member)
        assert given == {move.offset for move in moves if move.kind is Kind.DELIVERED}
        if len(delivered) < most:
            left = [record for record in self.log if self.due(record)]
            assert not left, f"not delivered though due: {left}"
        self.commit(moves)

    def see(self, move: Move, member: str) -> None:
        record = self.log[move.offset]
        assert self.due(record), f"{move} out of turn: {record}"
        expired = record.new.expires_at <= self.now
        match move.kind:
            case Kind.DELIVERED:
                assert not expired
                early = record.state == "unseen" and record.new.deliver_at > self.now
                assert not early
                assert record.counted < self.policy.max_attempts
                assert move.attempt == record.attempt + 1
                record.written = len(record.unopened)
                assert move.until == self.now + self.policy.visibility_ms * MS
                record.state, record.member = "out", member
                record.attempt, record.until = move.attempt, move.until
                record.receipts.add(move.attempt)
            case Kind.PARKED:
                assert (move.attempt, record.state) == (0, "unseen")
                assert move.until == record.new.deliver_at > self.now
                record.state, record.until = "parked", move.until
            case Kind.EXPIRED:
                assert expired
                assert not self.policy.dead_letter_expired
                record.state, record.ended = "settled", EXPIRED
            case Kind.DYING:
                if move.reason == attempts.EXPIRED:
                    assert expired
                    assert self.policy.dead_letter_expired
                else:
                    assert record.counted == self.policy.max_attempts
                record.state, record.reason = "dying", move.reason
            case _:
                pytest.fail(f"a take made {move}")

    @rule(data=st.data(), what=st.sampled_from(WORDS))
    def use_a_receipt(self, data: st.DataObject, what: str) -> None:
        self.pass_deadlines()
        known = [(r, attempt) for r in self.log for attempt in sorted(r.receipts)]
        if not known:
            return
        record, attempt = data.draw(st.sampled_from(known))
        offset = record.new.offset
        one = self.queue.begin(offset, attempt, self.now)
        good = (
            record.state in {"out", "returned"}
            and attempt == record.attempt
            and record.until > self.now
        )
        if isinstance(one, Refusal):
            assert not good, f"{one} for {record}"
            assert one.presented == attempt
            return
        assert good, f"accepted {attempt} of {record}"
        if what == "lose":
            self.queue.cancel(one, self.now)
            record.state = "out"
        elif what == "ack":
            move = self.queue.ack(one)
            self.commit([move])
            self.queue.finish_ack(one)
            record.state = "settled"
            assert self.queue.was_acked(offset, attempt)
        elif what == "extend":
            move = self.queue.extend(one, self.now, 15)
            self.commit([move])
            self.queue.finish_extend(one, move)
            record.state, record.until = "out", max(record.until, self.now + 15 * MS)
            record.written = len(record.unopened)
        elif what == "unopened":
            move = self.queue.nack(one, self.now, None, self.random, unopened=True)
            self.commit([move])
            self.queue.finish_nack(one, move)
            record.unopened.add(attempt)
            assert (move.kind, move.until) == (Kind.PARKED, self.now)
            record.state, record.until = "parked", move.until
            record.written = len(record.unopened)
        else:
            self.nack(record, one, None if what == "nack" else 0)

    def nack(self, record: Record, one: Attempt, delay_ms: int | None) -> None:
        move = self.queue.nack(one, self.now, delay_ms, self.random)
        self.commit([move])
        self.queue.finish_nack(one, move)
        if record.counted == self.policy.max_attempts:
            assert move.kind is Kind.DYING
            record.state, record.reason = "dying", move.reason
            return
        rest = move.until - self.now
        if delay_ms is not None:
            assert rest == delay_ms * MS
        else:
            full = min(4 << (max(1, record.counted) - 1), 7)
            assert full * MS * (100 - self.policy.jitter_percent) / 100 - MS <= rest <= full * MS
        record.state, record.until = "parked", move.until
        record.written = len(record.unopened)

    @rule(member=st.sampled_from("ab"))
    def a_consumer_dies(self, member: str) -> None:
        self.pass_deadlines()
        self.queue.take_again(self.now, "nobody", 0)  # passes the deadlines
        mine = [r for r in self.log if r.state == "out" and r.member == member]
        assert len(self.queue.member_gone(member)) == len(mine)
        for record in mine:
            record.state = "returned"

    @rule(data=st.data())
    def an_answer_is_lost(self, data: st.DataObject) -> None:
        self.pass_deadlines()
        out = [r for r in self.log if r.state == "out"]
        lost = data.draw(st.lists(st.sampled_from(out), max_size=3)) if out else []
        self.queue.give_back((r.new.offset, r.attempt) for r in lost)
        for record in lost:
            record.state = "returned"
            record.unopened.add(record.attempt)

    @rule()
    def the_dead_are_sent(self) -> None:
        for one in list(self.queue.dying.values()):
            letter = f"orders.dlq/0@{one.offset}"
            move = Move(Kind.DEAD, one.offset, one.attempt, reason=one.reason, dead_letter=letter)
            self.commit([move])
            self.queue.finish_dead(one, letter)
            record = self.log[one.offset]
            record.state = "settled"
            record.ended = Status("dead", record.attempt, reason=record.reason, dead_letter=letter)

    @rule()
    def another_node_takes_over(self) -> None:
        self.queue = QueuePartition(self.policy, states_of(self.states))
        for record in self.log:
            if record.state == "returned":
                record.state = "out"
            for newest in sorted(record.unopened)[record.written :]:
                # Its owner has not told of it, so it counts.
                record.unopened.remove(newest)
        self.pass_deadlines()

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def retention_removes(self, data: st.DataObject) -> None:
        first = data.draw(st.integers(0, len(self.log)))
        move = self.queue.skip_to(first)
        if move is None:
            assert all(r.state == "settled" for r in self.log[:first])
        else:
            self.commit([move])
        for record in self.log[:first]:
            if record.state != "settled":
                record.state, record.ended = "settled", None

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "queue"):
            return
        by_state = [record.state for record in self.log]
        assert self.queue.delayed == by_state.count("parked")
        assert len(self.queue.dying) == by_state.count("dying")
        open_states = {"out", "returned", "dying"}
        assert self.queue.open == sum(state in open_states for state in by_state)

    @invariant()
    def the_tables_say_the_same(self) -> None:
        if not hasattr(self, "queue"):
            return
        rows = states_of(self.states).open
        said = {int(row["offset"]): int(row["attempt"]) for row in rows}
        assert said == {
            r.new.offset: r.attempt for r in self.log if r.state not in {"unseen", "settled"}
        }

    def status(self, record: Record) -> Status | None:
        """As the owner knows it."""
        if record.state == "settled":
            return record.ended
        if record.state == "dying":
            return Status("dying", record.attempt, reason=record.reason)
        if record.until > self.now and record.state == "parked":
            return Status("parked", record.attempt, until=record.until)
        if record.until > self.now and record.state == "out":
            return Status("in_flight", record.attempt, record.member, record.until)
        return Status("pending", record.attempt)

    @invariant()
    def the_status_of_each_record_is_known_to_the_owner_and_in_the_tables(self) -> None:
        if not hasattr(self, "queue"):
            return
        for record in self.log:
            offset, wanted = record.new.offset, self.status(record)
            if wanted is None:
                continue
            assert self.queue.status(offset, self.now) == wanted
            if record.state == "returned" and record.until > self.now:
                # That its consumer is gone is known to the owner alone.
                wanted = Status("in_flight", record.attempt, record.member, record.until)
            assert status_in(self.states.get(KEY), offset, self.now) in (
                wanted,
                # Nothing is written of a group that was delivered nothing.
                *([Status("pending")] if KEY not in self.states else []),
            )


QueueMachine.TestCase.settings = settings(
    max_examples=examples(150), stateful_step_count=40, deadline=None
)
TestAgainstTheModel = QueueMachine.TestCase
