"""Queue groups with a predicate: what matches is delivered, the rest is settled."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from queue_rules.queues.attempts import Attempt, Move, NewRecord
from queue_rules.queues.partition import QueuePartition
from queue_rules.queues.record_facts import runs_of
from queue_rules.queues.retry_policy import RetryPolicy
from queue_rules.queues.skip import fetch_matching, settle_gone, skip
from queue_tables.groups.facts import Kind, fold
from queue_tables.groups.offset_ranges import OffsetSet, ranges_of
from queue_tables.groups.record_states import RecordStates
from tests.support.data.queue_facts import facts_of, states_of

END = 30


def kept(moves: list[Move]) -> RecordStates:
    """What the next owner reads."""
    return states_of(fold({}, facts_of(moves)))


MATCHES = st.sets(st.integers(0, END - 1))
STEPS = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 9), st.booleans()), max_size=12)


@given(matches=MATCHES, steps=STEPS)
def test_what_matches_is_delivered_once_and_all_else_is_settled_through_any_take_over(
    matches: set[int], steps: list[tuple[int, int, bool]]
) -> None:
    queue, moves, delivered = QueuePartition(RetryPolicy()), list[Move](), list[int]()
    for most, look, new_owner in [*steps, *[(END, END, False)] * 2]:
        upto = min(queue.scan + look, END)
        some = [NewRecord(n) for n in sorted(matches) if queue.scan <= n < upto]
        taken = fetch_matching(queue, 1, "a", most, some, upto)
        assert len(taken.deliver) <= most
        moves += taken.moves
        for one in taken.deliver:
            delivered.append(one.offset)
            begun = queue.begin(one.offset, one.attempt, 2)
            assert isinstance(begun, Attempt)
            moves.append(queue.ack(begun))
            queue.finish_ack(begun)
        if new_owner:
            queue = QueuePartition(RetryPolicy(), kept(moves))
    assert delivered == sorted(matches)
    assert queue.scan == END
    assert {queue.status(n, 2).status for n in range(END)} == {"acked"}
    assert kept(moves) == RecordStates.settled((0, END))
    never = [m for m in moves if m.kind is Kind.ACKED and not m.attempt]
    assert {n for m in never for n in range(m.offset, m.end)} == set(range(END)) - matches


def test_the_rest_is_a_fact_for_each_range_of_it() -> None:
    queue = QueuePartition(RetryPolicy())
    taken = fetch_matching(queue, 1, "a", 9, [NewRecord(50_000), NewRecord(50_001)], 100_000)
    assert [(m.kind, m.offset, end) for m, end in runs_of(taken.moves)] == [
        (Kind.ACKED, 0, 50_000),
        (Kind.DELIVERED, 50_000, 50_002),
        (Kind.ACKED, 50_002, 100_000),
    ]


def test_what_is_open_behind_the_scan_stays_open() -> None:
    before = QueuePartition(RetryPolicy())
    taken = before.take_new(1, "a", 1, [NewRecord(5)])
    queue = QueuePartition(RetryPolicy(), kept(taken.moves))
    assert queue.scan == 0
    assert [(m.offset, m.end) for m in skip(queue, 10)] == [(0, 5), (6, 10)]
    assert skip(queue, 10) == []
    assert queue.status(5, 1).status == "in_flight"


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=6),
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_missing_offsets(pairs: list[tuple[int, int]], start: int, end: int) -> None:
    known = OffsetSet(ranges_of(pairs))
    found = list(known.missing(start, end))
    assert [n for a, b in found for n in range(a, b)] == [
        n for n in range(start, end) if n not in known
    ]
    assert all(a < b for a, b in found)
    assert all(one[1] < other[0] for one, other in pairwise(found))


def test_a_record_that_is_gone_when_it_comes_again_is_settled() -> None:
    queue, moves = QueuePartition(RetryPolicy()), list[Move]()
    taken = queue.take_new(1, "a", 3, [NewRecord(n) for n in range(3)])
    moves += taken.moves
    queue.member_gone("a")
    again = queue.take_again(2, "b", 3)
    settle_gone(queue, again, [one for one in again.deliver if one.offset != 1])
    assert [one.offset for one in again.deliver] == [1]
    assert [(m.kind, m.offset) for m in again.moves if m.kind is Kind.ACKED] == [
        (Kind.ACKED, 0),
        (Kind.ACKED, 2),
    ]
    moves += again.moves
    begun = queue.begin(1, again.deliver[0].attempt, 3)
    assert isinstance(begun, Attempt)
    moves.append(queue.ack(begun))
    queue.finish_ack(begun)
    assert queue.open == 0
    assert kept(moves) == RecordStates.settled((0, 3))
