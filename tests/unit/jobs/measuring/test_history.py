"""Which instants of the groups' history stay."""

from __future__ import annotations

from jobs.measuring.history import DENSE_US, said, snapshots_to_keep
from jobs.measuring.metrics_rules import HOUR_US

DAY = 24 * HOUR_US
NOW = 20_000 * DAY
MUCH = 1 << 40


def hourly(hours: int) -> dict[int, int]:
    """An instant ten minutes past each of the last hours, ten bytes each."""
    return {NOW - n * HOUR_US + HOUR_US // 6: 10 for n in range(1, hours + 1)}


def test_two_days_have_an_instant_an_hour_and_what_is_older_one_a_day() -> None:
    kept = snapshots_to_keep(hourly(24 * 10), NOW, 0, MUCH)
    assert len([at for at in kept if at > NOW - DENSE_US]) == 48
    older = sorted(at for at in kept if at <= NOW - DENSE_US)
    assert [at // DAY for at in older] == [NOW // DAY - n for n in range(10, 2, -1)]
    assert snapshots_to_keep(dict.fromkeys(kept, 10), NOW, 0, MUCH) == kept, "what stays, stays"


def test_it_goes_back_to_the_oldest_record_and_to_the_one_instant_before_it() -> None:
    instants = hourly(20)
    oldest = NOW - 5 * HOUR_US
    kept = snapshots_to_keep(instants, NOW, oldest, MUCH)
    assert min(kept) == NOW - 6 * HOUR_US + HOUR_US // 6
    assert len(kept) == 6
    assert len(snapshots_to_keep(instants, NOW, NOW, MUCH)) == 1, "a queue without records"


def test_it_is_bounded_in_bytes_and_the_newest_always_stays() -> None:
    instants = hourly(20)
    assert snapshots_to_keep(instants, NOW, 0, 45) == set(sorted(instants)[-4:])
    assert snapshots_to_keep(instants, NOW, 0, 1) == {max(instants)}
    assert snapshots_to_keep({}, NOW, 0, 1) == set()


def test_an_instant_is_said_as_it_can_be_asked_for() -> None:
    assert said(1_700_000_000_123_000) == "2023-11-14T22:13:20.123Z"


def test_a_backup_keeps_a_run_a_minute_for_two_days_and_then_one_a_day() -> None:
    runs = {NOW - n * 20_000_000: 10 for n in range(3 * 60)}
    old = {NOW - 3 * DAY - n * HOUR_US: 10 for n in range(24)}
    kept = snapshots_to_keep(runs | old, NOW, 0, MUCH, 60_000_000)
    assert len([at for at in kept if at in runs]) == 60 + 1
    assert 1 <= len([at for at in kept if at in old]) <= 2
