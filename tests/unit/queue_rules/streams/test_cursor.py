"""The cursor of a partition: what acks move it, and what they may not."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakequeue.errors import InvalidRequest, OffsetOutOfRange, SkippedRecords
from queue_rules.streams.cursor import Cursor


def delivered(start: int, following: int) -> Cursor:
    cursor = Cursor(start)
    cursor.deliver(start, following)
    return cursor


def test_acks_in_order_move_the_position() -> None:
    cursor = delivered(5, 10)
    assert cursor.ack([5], through=False) == 6
    assert cursor.ack([7, 6], through=False) == 8
    assert cursor.outstanding
    assert cursor.ack([8, 9], through=False) == 10
    assert not cursor.outstanding


def test_an_earlier_unacked_record_is_refused_and_nothing_changes() -> None:
    cursor = delivered(0, 5)
    with pytest.raises(SkippedRecords, match="offset 3 is acked, and 1 was delivered before"):
        cursor.ack([0, 3], through=False)
    assert cursor.accepted == 0
    assert cursor.ack([3], through=True) == 4


def test_a_record_that_was_not_delivered_cannot_be_acked() -> None:
    with pytest.raises(InvalidRequest, match="below 5"):
        delivered(0, 5).ack([5], through=True)


def test_an_ack_again_is_a_retry() -> None:
    cursor = delivered(0, 5)
    cursor.ack([0, 1], through=False)
    assert cursor.ack([0], through=False) == 2


def test_expired_records_are_no_skipped_ones() -> None:
    cursor = delivered(0, 2)
    cursor.skip_to(10)
    cursor.deliver(10, 12)
    assert cursor.ack([0, 1, 10], through=False) == 11
    assert cursor.gaps == {}
    cursor = Cursor(0)
    cursor.skip_to(10)
    assert not cursor.outstanding
    cursor.deliver(10, 12)
    assert cursor.ack([10], through=False) == 11


def test_a_position_may_run_ahead_up_to_the_end_and_never_back() -> None:
    cursor = delivered(0, 3)
    assert cursor.commit_to(8, end=9) == 8
    assert cursor.delivered == 8
    assert cursor.commit_to(2, end=9) == 8
    with pytest.raises(OffsetOutOfRange, match="past the end 9"):
        cursor.commit_to(10, end=9)


def test_taking_a_delivery_back_never_goes_below_what_is_acked() -> None:
    cursor = delivered(0, 6)
    cursor.ack([0, 1, 2], through=False)
    cursor.rewind(1)
    assert cursor.delivered == 3
    cursor.rewind(9)
    assert cursor.delivered == 3


def test_delivery_never_steps_back() -> None:
    with pytest.raises(ValueError, match="delivery of 2"):
        delivered(0, 5).deliver(2, 6)


def test_a_position_within_a_gap_leaves_the_rest_of_it_to_nobody() -> None:
    cursor = Cursor(0)
    cursor.deliver_among([3, 10], 20)
    assert cursor.commit_to(6, end=20) == 6, "between the two that matched"
    assert cursor.ack([10], through=False) == 11, "nothing before it was delivered and not acked"
    assert not cursor.outstanding
    assert cursor.skip()
    assert cursor.accepted == 20


def test_the_positions_keep_their_order_whatever_happens() -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(200):
        cursor, end = Cursor(0), 0
        for _ in range(40):
            end += rng.randrange(3)
            match rng.randrange(5):
                case 0:
                    start = min(end, cursor.delivered + rng.randrange(2))
                    cursor.deliver(start, rng.randint(start, end))
                case 1 if cursor.delivered > cursor.accepted:
                    cursor.ack([rng.randrange(cursor.accepted, cursor.delivered)], through=True)
                case 2:
                    cursor.commit_to(rng.randint(0, end), end)
                case 3:
                    cursor.made_durable(rng.randint(cursor.durable, cursor.accepted))
                case _:
                    cursor.rewind(rng.randint(0, end))
            assert cursor.durable <= cursor.accepted <= cursor.delivered
            assert all(cursor.accepted < to <= cursor.delivered for to in cursor.gaps.values())


@given(
    st.sets(st.integers(0, 40), max_size=20),
    st.lists(st.tuples(st.sampled_from(["poll", "lost", "ack", "pass"]), st.integers(1, 5))),
)
def test_what_a_predicate_skips_never_takes_a_record_with_it(
    matching: set[int], steps: list[tuple[str, int]]
) -> None:
    """A model: every record that matches is delivered and acked, in order, and none twice."""
    wanted, cursor = sorted(matching), Cursor(0)
    got: list[int] = []
    acked: list[int] = []
    for does, size in [*steps, *[("poll", 5), ("ack", 5)] * 20, ("pass", 1)]:
        if does in {"poll", "lost"} and cursor.delivered <= 40:
            before = cursor.delivered
            batch = [m for m in wanted if m >= before][:size]
            behind = [m for m in wanted if m > batch[-1]] if batch else []
            cursor.deliver_among(batch, behind[0] if behind else 41)
            if does == "lost":
                cursor.rewind(before)
            else:
                got += batch
        elif does == "ack" and len(got) > len(acked):
            some = got[len(acked) :][:size]
            cursor.made_durable(cursor.ack(some, through=False))
            acked += some
        elif does == "pass" and cursor.skip():
            cursor.made_durable(cursor.accepted)
        unacked = [m for m in wanted if m not in acked]
        assert cursor.durable <= min(unacked, default=41)
    assert got == acked == wanted
    assert cursor.durable == 41
