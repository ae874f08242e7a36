"""Batches begin close to each other while little comes in, and farther apart while much does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.source.batch_pace import BatchPace

LIMIT = 128 << 20


def settled(records_a_s: float, record_bytes: int, limit: int = LIMIT) -> float:
    """How far apart batches are after a while, if each takes all that came."""
    pace, now, apart = BatchPace(0.02, 0.2, limit), 0.0, 0.02
    for _ in range(200):
        rows = int(records_a_s * apart)
        pace.began(now, rows, rows * record_bytes)
        apart = pace.left_s(now)
        now += apart
        assert pace.left_s(now) == 0.0
    return apart


@pytest.mark.parametrize(
    ("records_a_s", "record_bytes", "apart"),
    [
        (0, 0, 0.02),
        (1_000, 1_000, 0.02),
        (15_000, 1_000, 0.02),
        (30_000, 1_000, 0.2),
        (30_000, 100, 0.02),
        (80_000, 100, 0.2),
        (100, 1 << 20, 0.2),
    ],
)
def test_batches_are_farther_apart_only_while_much_comes_in(
    records_a_s: int, record_bytes: int, apart: float
) -> None:
    assert settled(records_a_s, record_bytes) == pytest.approx(apart)


def test_a_large_send_makes_the_next_batch_wait_no_longer_than_in_proportion() -> None:
    pace = BatchPace(0.02, 0.2, LIMIT)
    pace.began(10.0, 1_000, 1_000_000)
    assert pace.left_s(10.0) == pytest.approx(0.05)
    pace.began(10.05, 1, 100)
    assert pace.left_s(10.05) == pytest.approx(0.02)


def test_a_batch_does_not_wait_if_it_could_not_get_larger() -> None:
    pace = BatchPace(0.02, 0.2, 4_000_000)
    pace.began(10.0, 3_000, 3_000_000)
    assert pace.left_s(10.0) == pytest.approx(0.02), "as large as it may be"
    pace.began(11.0, 1_000, 1_000_000, pending_rows=1_001)
    assert pace.left_s(11.0) == pytest.approx(0.02), "there is a backlog"


@given(st.floats(0, 5), st.floats(0, 5), st.integers(0, 10**6), st.integers(0, 10**9))
def test_the_least_time_holds_always(least: float, most: float, rows: int, size: int) -> None:
    pace = BatchPace(least, most, LIMIT)
    pace.began(0.0, rows, size)
    assert least <= pace.left_s(0.0) <= max(least, most)
