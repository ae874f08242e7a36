"""Parked records: in the order they are due, for millions."""

from __future__ import annotations

import tracemalloc
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_rules.queues import delayed
from queue_rules.queues.delayed import HEAP_ROWS, DelayedRecord, DelayedRecords
from queue_rules.queues.key_order import KeyOrder, Waiting, key_hash
from queue_rules.queues.retry_policy import RetryPolicy, backoff_ms
from queue_tables.groups.record_states import NEVER


@pytest.fixture(autouse=True)
def small_heap(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "bytes" not in request.node.name:
        monkeypatch.setattr(delayed, "HEAP_ROWS", 4)


@given(st.lists(st.integers(0, 30), max_size=40), st.lists(st.integers(0, 30), max_size=10))
def test_they_come_out_by_due_time_and_never_early(dues: list[int], times: list[int]) -> None:
    records = DelayedRecords()
    expected = [DelayedRecord(due, offset, 1) for offset, due in enumerate(dues)]
    for record in expected:
        records.push(record)
    expected.sort()
    for now in [*sorted(times), 31]:
        assert records.next_due == (expected[0].due if expected else None)
        while (out := records.pop_due(now)) is not None:
            assert out == expected.pop(0)
            assert out.due <= now
        assert not expected or expected[0].due > now
        assert len(records) == len(expected)
    assert not expected


@given(st.lists(st.integers(0, 30), max_size=30), st.integers(0, 30), st.integers(0, 30))
def test_rows_that_are_gone_are_dropped_and_the_rest_survives_the_tables(
    dues: list[int], taken: int, below: int
) -> None:
    records = DelayedRecords()
    for offset, due in enumerate(dues):
        records.push(DelayedRecord(due, offset, 3, 5, -7, 9))
    kept = {
        DelayedRecord(due, offset, 3, 5, -7, 9) for offset, due in enumerate(dues) if due > taken
    }
    while records.pop_due(taken) is not None:
        pass
    gone = records.drop_below(below)
    assert set(gone) == {record for record in kept if record.offset < below}
    again = DelayedRecords()
    again.push_open(records.to_open())
    found = {again.pop_due(99) for _ in range(len(again))}
    assert found == kept - set(gone)


def test_a_delayed_record_costs_less_than_100_bytes() -> None:
    count = 10 * HEAP_ROWS + 1
    dues = np.random.default_rng(1).integers(0, 1 << 50, count)
    tracemalloc.start()
    records = DelayedRecords()
    for offset, due in enumerate(dues.tolist()):
        records.push(DelayedRecord(due, offset, 0, 0, offset, NEVER))
    owned, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(records) == count
    assert owned < 100 * count


def test_the_rest_doubles_up_to_its_cap_and_jitter_only_shortens_it() -> None:
    class Last(Random):
        def random(self) -> float:
            return 1.0

    policy = RetryPolicy(backoff_ms=100, backoff_max_ms=1_000, jitter_percent=0)
    rests = [backoff_ms(policy, attempt, Last()) for attempt in range(1, 7)]
    assert rests == [100, 200, 400, 800, 1_000, 1_000]
    assert backoff_ms(policy, 1_000_000, Last()) == 1_000
    jittery = RetryPolicy(backoff_ms=100, backoff_max_ms=1_000, jitter_percent=30)
    assert [backoff_ms(jittery, attempt, Last()) for attempt in (1, 9)] == [70, 700]


def test_keys_have_the_same_hash_everywhere_and_none_has_no_order() -> None:
    assert key_hash(None) == 0
    assert key_hash(b"k") == -6_029_533_338_027_043_741
    assert key_hash(b"k") != key_hash(b"l")


def test_of_a_key_the_lowest_goes_first_and_others_go_on() -> None:
    keys = KeyOrder()
    records = [Waiting(offset, key, 0, NEVER) for offset, key in enumerate([7, 7, 8, 7, 0, 0])]
    assert [keys.admit(record) for record in records] == [True, False, True, False, True, True]
    assert keys.waiting == 2
    keys.free(8)
    assert keys.pop_freed() is None
    keys.free(7)
    assert keys.pop_freed() == records[1]
    assert not keys.admit(Waiting(9, 7, 0, NEVER))


@given(st.lists(st.integers(0, 30), max_size=40), st.integers(0, 30), st.integers(0, 30))
def test_those_that_are_not_due_are_counted(dues: list[int], taken: int, now: int) -> None:
    records = DelayedRecords()
    for offset, due in enumerate(dues):
        records.push(DelayedRecord(due, offset, 1))
    while records.pop_due(taken) is not None:
        pass
    assert records.later_than(now) == sum(due > max(taken, now) for due in dues)
