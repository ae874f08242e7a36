"""Of each key one record at a time, the lowest first; and what retention takes out of the lines."""

from __future__ import annotations

from queue_rules.queues.key_order import KeyOrder, Waiting
from queue_tables.groups.record_states import NEVER


def record(offset: int, key: int = 1, due: int = 0) -> Waiting:
    return Waiting(offset, key, due, NEVER)


def test_records_of_a_key_follow_each_other_and_keep_their_times() -> None:
    keys = KeyOrder()
    assert keys.admit(record(0))
    assert keys.admit(record(1, key=0)), "no key, no order"
    assert keys.admit(record(2, key=2))
    assert not keys.admit(record(3, due=77))
    assert not keys.admit(record(4))
    assert (keys.waiting, keys.pop_freed()) == (2, None)
    keys.free(1)
    assert keys.has_freed
    assert keys.pop_freed() == record(3, due=77)
    keys.free(1)
    assert keys.pop_freed() == record(4)
    keys.free(1)
    assert (keys.waiting, keys.has_freed) == (0, False)
    assert keys.admit(record(5)), "the key is free again"


def test_a_key_that_is_held_makes_others_wait_and_no_key_holds_nothing() -> None:
    keys = KeyOrder()
    keys.hold(1)
    keys.hold(0)
    assert not keys.admit(record(0))
    assert keys.admit(record(1, key=0))


def test_records_that_retention_takes_leave_their_lines_and_free_the_next() -> None:
    keys = KeyOrder()
    assert keys.admit(record(0))
    assert keys.admit(record(1, key=2))
    for waiting in (record(2), record(3, key=2), record(4, key=2), record(9, key=2)):
        assert not keys.admit(waiting)
    keys.free(2)
    keys.drop_below(5)
    assert keys.pop_freed() == record(9, key=2), "3 was free and 4 next in line: both are gone"
    assert keys.pop_freed() is None
    assert keys.waiting == 0
    keys.free(1)
    assert keys.admit(record(6)), "nothing of key 1 waits any more"


def test_a_long_line_gives_its_front_back_and_stays_in_order() -> None:
    keys = KeyOrder()
    count = 10_000
    assert keys.admit(record(0))
    for offset in range(1, count):
        assert not keys.admit(record(offset))
    for offset in range(1, count):
        keys.free(1)
        assert keys.pop_freed() == record(offset)
    assert keys.waiting == 0
