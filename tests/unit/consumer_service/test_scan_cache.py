"""Which looks at the load are kept for later calls."""

from __future__ import annotations

from consumer_service.calls.advising import APART_S, LONGER_S, Looks
from lakequeue.wire import MAX_WAIT_MS
from queue_rules.groups.advice import Look

MOST_S = MAX_WAIT_MS / 1_000


def looked(*times: float) -> Looks:
    looks = Looks()
    for at_s in times:
        looks.add(Look(at_s, []))
    return looks


def began(looks: Looks, over_s: float) -> float | None:
    first = looks.before(over_s)
    return None if first is None else first.at_s


def test_who_asks_every_fifteen_seconds_need_not_wait_for_any_range() -> None:
    looks = looked(*(15.0 * n for n in range(20)))
    for over_s in (0.5, 5.0, 14.0, 15.0, 16.0, MOST_S):
        assert looks.cover(over_s), over_s
    assert began(looks, 5.0) == 15.0 * 18
    assert began(looks, 16.0) == 15.0 * 17


def test_however_often_it_is_asked_few_looks_are_kept_and_every_range_is_covered() -> None:
    looks = looked(*(n / 10 for n in range(10_000)))
    assert len(looks) <= (MOST_S + LONGER_S) / APART_S + 2
    for over_s in (0.5, 5.0, MOST_S):
        assert looks.cover(over_s), over_s


def test_the_first_call_has_nothing_to_judge_and_waits_its_time_out() -> None:
    assert began(looked(), 5.0) is None
    assert began(looked(0.0), 5.0) is None
    assert not looked(0.0).cover(5.0)
    assert began(looked(0.0, 2.0), 5.0) == 0.0
    assert not looked(0.0, 2.0).cover(5.0)
    assert looked(0.0, 1.25, 2.5, 3.75, 5.0).cover(5.0)


def test_a_look_from_long_ago_begins_no_range() -> None:
    assert began(looked(0.0, 3_600.0), 5.0) is None
