"""The in-flight set of a queue partition: what the model of `test_queue_machine` does not reach."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest

from lakequeue.wire import QueueReceipt, SettleAnswer
from queue_rules.queues import open_records, partition
from queue_rules.queues.attempts import (
    Attempt,
    NewRecord,
    Refusal,
    Standing,
    acked_moves,
    returned_moves,
)
from queue_rules.queues.partition import QueuePartition
from queue_rules.queues.receipt_actions import ReceiptAction
from queue_rules.queues.receipts import Begun, begin
from queue_rules.queues.record_facts import runs_of
from queue_rules.queues.retry_policy import RetryPolicy
from queue_tables.groups.backlog import Counts
from queue_tables.groups.facts import Kind, fold
from queue_tables.groups.record_states import (
    OpenRecord,
    RecordStates,
    Stage,
    parted_reason,
    reason_of_unopened,
    reason_with,
)
from queue_tables.groups.record_status import status_of_open
from tests.support.data.queue_facts import MS, facts_of, states_of


def news(count: int, first: int = 0) -> list[NewRecord]:
    return [NewRecord(offset) for offset in range(first, first + count)]


def test_past_the_bound_new_records_wait_and_the_reason_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(open_records, "MAX_OPEN", 10)
    queue = QueuePartition(RetryPolicy())
    taken = queue.take_new(1, "a", 100, news(30))
    assert len(taken.deliver) == 10
    assert queue.held_back is not None
    assert "10 records are in flight" in queue.held_back
    for one in taken.deliver[1::2]:
        started = queue.begin(one.offset, 1, 2)
        assert isinstance(started, Attempt)
        queue.finish_ack(started)
    resumed = queue.take_new(2, "a", 100, news(20, 10)).deliver
    assert [o.offset for o in resumed] == [*range(10, 15)]


def test_a_record_counts_as_held_while_its_change_becomes_durable() -> None:
    queue = QueuePartition(RetryPolicy())
    queue.take_new(1, "a", 100 * MS, news(3))
    for offset in range(3):
        assert isinstance(queue.begin(offset, 1, 2), Attempt)
    assert queue.held_by("a") == 3
    extended, acked, nacked = (queue._open[offset] for offset in range(3))
    queue.finish_extend(extended, queue.extend(extended, 2, 200))
    queue.finish_ack(acked)
    assert queue.held_by("a") == 2
    queue.finish_nack(nacked, queue.nack(nacked, 2, 0, Random(1)))
    assert queue.held_by("a") == 1
    begun = queue.begin(0, 1, 3)
    assert isinstance(begun, Attempt)
    queue.cancel(begun, 3)
    assert queue.held_by("a") == 1


def test_a_deadline_moves_back_only_for_who_says_that_it_may() -> None:
    queue = QueuePartition(RetryPolicy(visibility_ms=1_000))
    (held,) = queue.take_new(0, "a", 1, news(1)).deliver
    for may_shorten, deadline in ((False, 1_000 * MS), (True, 10 * MS)):
        begun = queue.begin(0, 1, 0)
        assert begun is held
        queue.finish_extend(held, queue.extend(held, 0, 10, may_shorten=may_shorten))
        assert held.deadline == deadline
    assert queue.next_due() == 10 * MS
    (again,) = queue.take_again(10 * MS, "b", 1).deliver
    assert (again.offset, again.attempt) == (0, 2)


@pytest.mark.parametrize("returned", [False, True])
def test_a_late_ack_counts_until_another_has_the_record(returned: bool) -> None:
    queue = QueuePartition(RetryPolicy(visibility_ms=10, key_order=True))
    queue.take_new(0, "a", 1, news(1))
    if returned:
        assert not queue.take_again(20 * MS, "b", 0).deliver
    receipt = QueueReceipt("t", 0, 0, 0, attempt=1, group=0)
    acks = [ReceiptAction("r", receipt, "ack", late=late) for late in (False, True)]

    def said(ack: ReceiptAction) -> tuple[Begun | None, list[str]]:
        answer = SettleAnswer()
        found = begin(queue, 0, ack, 20 * MS, Random(1), {}, answer)
        return found, [one.why for one in answer.refused]

    assert said(acks[0]) == (None, ["timed_out"])
    late, refused = said(acks[1])
    assert late is not None
    assert not refused
    late.finish(queue, 20 * MS, stands=False)  # its fact did not become durable
    (again,) = queue.take_again(21 * MS, "b", 1).deliver
    assert again.attempt == 2
    assert said(acks[1]) == (None, ["superseded"])
    newest = ReceiptAction("r", receipt._replace(attempt=2), "ack", late=True)
    kept, _ = said(newest)
    assert kept is not None
    kept.finish(queue, 40 * MS, stands=True)
    assert not queue.take_again(99 * MS, "c", 1).deliver
    assert queue.held_by("a") == queue.held_by("b") == 0


def test_waiting_for_a_key_has_a_bound_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_records, "MAX_WAITING", 9)
    queue = QueuePartition(RetryPolicy(key_order=True))
    taken = queue.take_new(1, "a", 100, [NewRecord(n, key_hash=7) for n in range(30)])
    assert [one.offset for one in taken.deliver] == [0]
    assert queue.waiting == 9
    assert queue.held_back is not None
    assert "9 wait for their key" in queue.held_back


def test_a_hot_key_in_front_holds_up_no_other_and_takes_little_memory() -> None:
    queue = QueuePartition(RetryPolicy(key_order=True))
    hot = 100_000
    tracemalloc.start()
    taken = queue.take_new(1, "a", 10, (NewRecord(n, key_hash=7) for n in range(hot)))
    owned, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [one.offset for one in taken.deliver] == [0]
    assert queue.waiting == hot - 1
    assert owned < 16 * hot, "8 bytes each, and room to grow"
    others = [NewRecord(hot + n, key_hash=8 + n) for n in range(5)]
    assert [o.offset for o in queue.take_new(1, "a", 10, others).deliver] == [
        hot + n for n in range(5)
    ]
    for offset in range(1_000):
        started = queue.begin(offset, 1, 2)
        assert isinstance(started, Attempt)
        queue.finish_ack(started)
        assert [o.offset for o in queue.take_again(2, "a", 10).deliver] == [offset + 1]
    assert queue.waiting == hot - 1_001


def test_what_waits_for_its_key_keeps_its_times() -> None:
    queue = QueuePartition(RetryPolicy(key_order=True))
    queue.take_new(
        1, "a", 10, [NewRecord(0, 7), NewRecord(1, 7, expires_at=50), NewRecord(2, 7, 90)]
    )
    first = queue.begin(0, 1, 2)
    assert isinstance(first, Attempt)
    queue.finish_ack(first)
    taken = queue.take_again(60, "a", 10)
    assert [(move.kind, move.offset) for move in taken.moves] == [
        (Kind.EXPIRED, 1),
        (Kind.PARKED, 2),
    ]


def test_ranges_between_what_waits_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_records, "MAX_RANGES", 5)
    queue = QueuePartition(RetryPolicy(key_order=True))
    mixed = [NewRecord(n, key_hash=7 if n % 2 else 100 + n) for n in range(40)]
    assert len(queue.take_new(1, "a", 100, mixed).deliver) < 10
    assert queue.held_back is not None
    assert "5 ranges" in queue.held_back


def test_a_repeated_ack_is_known_and_an_older_attempt_is_told_both_numbers() -> None:
    queue = QueuePartition(RetryPolicy(visibility_ms=10))
    queue.take_new(0, "a", 1, news(1))
    queue.take_again(20 * MS, "b", 1)
    assert queue.begin(0, 1, 20 * MS) == Refusal("superseded", 1, 2)
    second = queue.begin(0, 2, 20 * MS)
    assert isinstance(second, Attempt)
    assert queue.begin(0, 2, 20 * MS) == Refusal("busy", 2, 2)
    queue.finish_ack(second)
    assert queue.was_acked(0, 2)
    assert not queue.was_acked(0, 1)
    assert queue.begin(0, 1, 20 * MS) == Refusal("superseded", 1, 2)


def test_after_the_deadline_a_receipt_is_refused_with_the_deadline() -> None:
    queue = QueuePartition(RetryPolicy(visibility_ms=10))
    queue.take_new(0, "a", 1, news(1))
    assert queue.begin(0, 1, 10 * MS) == Refusal("timed_out", 1, 10 * MS)


def test_a_receipt_stays_good_after_a_take_over() -> None:
    queue = QueuePartition(RetryPolicy(visibility_ms=10))
    taken = queue.take_new(0, "a", 3, news(3))
    heir = QueuePartition(RetryPolicy(visibility_ms=10), states_of(fold({}, facts_of(taken.moves))))
    assert heir.take_again(5 * MS, "b", 5).deliver == []
    one = heir.begin(1, 1, 5 * MS)
    assert isinstance(one, Attempt)
    heir.finish_ack(one)
    assert [o.offset for o in heir.take_again(11 * MS, "b", 5).deliver] == [0, 2]


def test_the_next_due_time_is_the_least_of_deadlines_and_rests() -> None:
    queue = QueuePartition(RetryPolicy(visibility_ms=50))
    assert queue.next_due() is None
    queue.take_new(0, "a", 9, [NewRecord(0), NewRecord(1, deliver_at=30 * MS)])
    assert queue.next_due() == 30 * MS
    assert queue.take_again(30 * MS, "a", 1).deliver[0].offset == 1
    assert queue.next_due() == 50 * MS
    moves = returned_moves(queue.member_gone("a"), 31 * MS)
    assert queue.next_due() == 0
    assert {(m.kind, m.attempt, m.until) for m in moves} == {(Kind.PARKED, 1, 31 * MS)}
    assert [m.offset for m in moves] == [0, 1]


def test_standing_of_a_delivered_record_is_in_flight_at_its_member() -> None:
    queue = QueuePartition(RetryPolicy())
    one = queue.take_new(0, "a", 1, news(1)).deliver[0]
    assert (one.standing, one.member, queue.held_by("a")) == (Standing.IN_FLIGHT, "a", 1)


def test_neighbours_that_say_the_same_are_one_fact() -> None:
    taken = QueuePartition(RetryPolicy()).take_new(0, "a", 10, [*news(4), *news(3, 5)])
    assert [(move.offset, end) for move, end in runs_of(taken.moves)] == [(0, 4), (5, 8)]


def test_an_attempt_keeps_its_number_while_its_commit_is_awaited() -> None:
    queue = QueuePartition(RetryPolicy(visibility_ms=10))
    slow = queue.take_new(0, "a", 1, news(1)).deliver[0]
    following = queue.take_again(20 * MS, "b", 1).deliver[0]
    assert (slow.attempt, following.attempt) == (1, 2)
    assert not queue.is_newest(slow)
    assert queue.is_newest(following)


def test_deliveries_that_nobody_saw_do_not_bring_a_record_to_its_end() -> None:
    queue = QueuePartition(RetryPolicy(max_attempts=2))
    queue.never_left(queue.take_new(0, "a", 1, news(1)).deliver)
    for now in range(1, 9):
        taken = queue.take_again(now, "a", 1)
        assert [(one.offset, one.attempt) for one in taken.deliver] == [(0, 1)]
        assert queue.held_by("a") == 1
        queue.never_left(taken.deliver)
        queue.never_left(taken.deliver)
    first = queue.take_again(10, "a", 1).deliver[0]
    queue.give_back([(0, 1)])
    second = queue.take_again(11, "b", 1).deliver[0]
    assert (first.attempt, second.attempt) == (1, 2)
    queue.never_left([first])
    assert queue.is_newest(second)
    queue.never_left([second])
    refused = queue.begin(0, 1, 12)
    assert isinstance(refused, Refusal), "the first attempt was over when the second began"
    assert queue.take_again(13, "b", 1).deliver[0].attempt == 2


def test_one_look_changes_no_more_than_one_commit_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition, "MOST_MOVES", 10)
    queue = QueuePartition(RetryPolicy())
    queue.take_new(1, "a", 1, [NewRecord(n, deliver_at=5, expires_at=7) for n in range(25)])
    counts = [len(queue.take_again(9, "a", 1).moves) for _ in range(4)]
    assert counts == [10, 10, 5, 0]


def test_due_records_wait_at_the_bound_as_new_ones_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_records, "MAX_OPEN", 10)
    queue = QueuePartition(RetryPolicy(dead_letter_expired=True))
    queue.take_new(1, "a", 1, [NewRecord(n, deliver_at=5, expires_at=7) for n in range(25)])
    assert len(queue.take_again(9, "a", 1).moves) == 10
    assert (len(queue.dying), queue.delayed) == (10, 15)
    queue.finish_dead(queue.dying[0])
    assert len(queue.take_again(9, "a", 1).moves) == 1


def test_what_the_last_nack_said_is_kept_for_whoever_sends_the_dead_letter() -> None:
    queue = QueuePartition(RetryPolicy(max_attempts=1))
    moves = queue.take_new(1, "a", 1, news(1)).moves
    one = queue.begin(0, 1, 2)
    assert isinstance(one, Attempt)
    one.nack_reason = "card: declined"
    died = queue.nack(one, 2, None, Random(1))
    queue.finish_nack(one, died)
    states = states_of(fold({}, facts_of([*moves, died])))
    heir = QueuePartition(RetryPolicy(max_attempts=1), states).dying[0]
    for dying in (queue.dying[0], heir):
        assert (dying.reason, dying.nack_reason) == ("max_attempts", "card: declined")
    said = queue.status(0, 3)
    assert (said.status, said.reason) == ("dying", "max_attempts")
    (row,) = states.open.tolist()
    assert status_of_open(OpenRecord(*row), 3) == said


def test_what_an_earlier_nack_said_is_not_said_of_a_later_attempt() -> None:
    queue = QueuePartition(RetryPolicy(max_attempts=2))
    queue.take_new(1, "a", 1, news(1))
    one = queue.begin(0, 1, 2)
    assert isinstance(one, Attempt)
    one.nack_reason = "busy"
    queue.cancel(one, 2)
    queue.member_gone("a")
    queue.take_again(3, "b", 1)
    queue.member_gone("b")
    (move,) = queue.take_again(4, "c", 1).moves
    assert (move.kind, move.reason) == (Kind.DYING, "max_attempts")


def test_an_earlier_release_takes_attempts_that_do_not_count_for_no_word_of_a_nack() -> None:
    # What it reads of a record in flight, and what it writes when that comes back to it.
    reason, said = parted_reason(reason_of_unopened(2))
    assert said == "", "its dead letter would say so"
    parked = OpenRecord(0, 3, Stage.PARKED, until=1, reason=reason_with(reason, "500"))
    queue = QueuePartition(RetryPolicy(max_attempts=5), RecordStates.opened([parked]))
    (one,) = queue.take_again(2, "b", 1).deliver
    assert (one.attempt, one.counted) == (4, 2)


@pytest.mark.parametrize("stage", [Stage.DELIVERED, Stage.PARKED])
@pytest.mark.parametrize("number", ["500", "9" * 5_000, "x", "²"])
def test_what_no_release_of_ours_says_of_attempts_stops_nothing(stage: Stage, number: str) -> None:
    odd = OpenRecord(0, 3, stage, until=1, reason=f"unopened {number}")
    queue = QueuePartition(RetryPolicy(max_attempts=1), RecordStates.opened([odd]))
    for now in (2, 100_000_000):
        queue.take_again(now, "b", 1)
    assert [one.offset for one in queue.dying.values()] == [0], "it dies some time"


def test_counts_are_as_of_now_in_memory_and_say_what_was_returned() -> None:
    queue = QueuePartition(RetryPolicy(visibility_ms=10, max_attempts=1))
    new = [*news(4), NewRecord(4, deliver_at=20 * MS)]
    first, second, third, _ = queue.take_new(0, "a", 10, new).deliver
    assert queue.counts(1 * MS) == Counts(pending=0, in_flight=4, parked=1, dying=0)
    queue.give_back([(first.offset, 1)])
    begun = queue.begin(second.offset, 1, 1 * MS)
    assert isinstance(begun, Attempt)
    queue.finish_nack(begun, queue.nack(begun, 1 * MS, None, Random(1)))
    begun = queue.begin(third.offset, 1, 1 * MS)
    assert begun is third
    assert queue.counts(9 * MS) == Counts(pending=1, in_flight=2, parked=1, dying=1)
    assert queue.counts(10 * MS) == Counts(pending=3, in_flight=0, parked=1, dying=1)
    assert queue.counts(20 * MS) == Counts(pending=4, in_flight=0, parked=0, dying=1)


@pytest.mark.parametrize("key_order", [False, True])
def test_acks_together_come_to_the_same_as_one_after_the_other(key_order: bool) -> None:
    records = [NewRecord(offset, offset % 3 + 1) for offset in range(12)]
    found = []
    for together in (True, False):
        queue = QueuePartition(RetryPolicy(key_order=key_order))
        one = queue.take_new(1, "a", 5, records).deliver
        other = queue.take_new(1, "b", 4, records[queue.scan :]).deliver
        begun = [queue.begin(each.offset, 1, 2) for each in (*other, *one)]
        acked = [each for each in begun if isinstance(each, Attempt)]
        assert len(acked) == (3 if key_order else 9)
        # Of one of them nobody knows any more.
        acked.append(Attempt(99, 1, 0, 0, member="a"))
        if together:
            queue.finish_acks(acked)
        else:
            for each in acked:
                queue.finish_ack(each)
        said = [queue.status(offset, 3) for offset in range(12)]
        again = [each.offset for each in queue.take_again(3, "a", 9).deliver]
        repeats = [queue.was_acked(offset, 1) for offset in (*range(12), 99)]
        found.append((said, again, repeats, dict(queue.held), queue.open))
    assert found[0] == found[1]


def test_neighbours_are_one_move_from_the_beginning() -> None:
    queue = QueuePartition(RetryPolicy())
    records = news(10)
    records[4] = NewRecord(4, deliver_at=900)
    records[7] = NewRecord(7, expires_at=800)
    moves = queue.take_new(1, "a", 10, records).moves
    assert [(move.kind, move.offset, move.end or move.offset + 1) for move in moves] == [
        (Kind.DELIVERED, 0, 4),
        (Kind.PARKED, 4, 5),
        (Kind.DELIVERED, 5, 6),
        (Kind.DELIVERED, 6, 7),
        (Kind.DELIVERED, 7, 8),
        (Kind.DELIVERED, 8, 9),
        (Kind.DELIVERED, 9, 10),
    ]
    again = QueuePartition(RetryPolicy())
    records[4] = NewRecord(4)
    moves = again.take_new(1, "a", 10, records).moves
    assert [(move.offset, move.end) for move in moves] == [(0, 7), (7, 8), (8, 10)]
    facts = acked_moves(again._open[offset] for offset in (3, 4, 5, 1, 8, 9))
    assert [(move.kind, move.offset, move.end) for move in facts] == [
        (Kind.ACKED, 3, 6),
        (Kind.ACKED, 1, 2),
        (Kind.ACKED, 8, 10),
    ]
