"""A worker fetches ahead what it works through in a moment."""

from __future__ import annotations

from lakequeue.client.consuming.pace import Pace


def worked(pace: Pace, now: float, seconds: float, records: int = 1) -> float:
    for _ in range(records):
        pace.handed(now)
        now += seconds
        pace.asked(now)
    return now


def test_it_starts_with_one_and_grows_when_the_work_is_quick() -> None:
    pace = Pace()
    assert pace.most_ahead(10, 0) == 1
    now = worked(pace, 0, 0.001)
    assert pace.most_ahead(10, now) == 10


def test_nothing_waits_behind_slow_work() -> None:
    pace = Pace()
    pace.handed(0)
    assert pace.most_ahead(10, 0) == 0, "how long the first takes, nobody knows"
    pace.asked(3.0)
    assert pace.most_ahead(10, 3.0) == 1, "the application waits for it"
    pace.handed(3.1)
    assert pace.most_ahead(10, 3.1) == 0


def test_work_that_becomes_slow_is_noticed_while_it_lasts() -> None:
    pace = Pace()
    now = worked(pace, 0, 0.001, 20)
    pace.handed(now)
    assert pace.most_ahead(10, now) == 10
    assert pace.most_ahead(10, now + 3) == 0


def test_work_that_takes_no_time_that_a_clock_sees_is_quick() -> None:
    pace = Pace()
    assert pace.most_ahead(10, worked(pace, 0, 0)) == 10
