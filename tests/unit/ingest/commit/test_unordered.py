"""What is acknowledged and not ordered, by the watermarks in `log`."""

from __future__ import annotations

from ingest.commit.unordered import MOST_KEPT, Unordered, Waiting, joined
from ingest.metrics import Recent


def test_what_lies_above_the_watermark_waits() -> None:
    unordered = Unordered()
    for stamp in (10, 20, 30):
        unordered.committed("a-1", stamp, 2, 100)
    assert unordered.left({}) == (6, 300, 10)
    assert unordered.left({"inbox/a-1": 20}) == (2, 100, 30)
    assert unordered.left({"inbox/a-1": 30}) == (0, 0, None)


def test_a_second_incarnation_may_be_ordered_before_the_first() -> None:
    unordered = Unordered()
    unordered.committed("a-1", 10, 1, 5)
    unordered.committed("a-2", 20, 1, 7)
    assert unordered.left({"inbox/a-2": 20}) == (1, 5, 10)
    assert unordered.left({"inbox/a-2": 20, "inbox/a-1": 10}) == (0, 0, None)


def test_an_outage_of_ordering_takes_a_bounded_amount_of_memory() -> None:
    unordered = Unordered()
    count = 5 * MOST_KEPT
    for stamp in range(1, count + 1):
        unordered.committed("a-1", stamp, 1, 10)
    assert len(unordered._waiting) <= MOST_KEPT
    assert unordered.left({}) == (count, 10 * count, 1)


def test_neighbours_of_one_shard_are_joined() -> None:
    waiting = [Waiting("a", 1, 1, 1, 1), Waiting("a", 2, 2, 1, 1), Waiting("b", 3, 3, 1, 1)]
    assert joined(waiting) == [Waiting("a", 1, 2, 2, 2), Waiting("b", 3, 3, 1, 1)]


def test_producers_are_counted_for_a_while() -> None:
    recent = Recent(window_s=10, most=3)
    for now, name in enumerate("aabc"):
        recent.seen(name, float(now))
    assert recent.count(4.0) == 3
    assert recent.count(11.5) == 2  # a was seen at 1, b at 2
    recent.seen("d", 12.0)
    recent.seen("e", 12.0)
    assert recent.count(12.0) == 3, "the bound"
