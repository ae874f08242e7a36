"""Schedules of faults come from their seed alone."""

from __future__ import annotations

from itertools import islice

from tests.support.faults.nemesis import ILLS, KINDS, schedule


def test_a_seed_makes_one_schedule_and_another_seed_another() -> None:
    first = list(islice(schedule(7), 40))
    assert first == list(islice(schedule(7), 40))
    assert first != list(islice(schedule(8), 40))


def test_each_round_has_every_kind_once_within_its_bounds() -> None:
    struck = islice(schedule(7), 3 * len(KINDS))
    faults = [fault for together in struck for fault in together][: 3 * len(KINDS)]
    for at in range(0, len(faults), len(KINDS)):
        assert {f.kind for f in faults[at : at + len(KINDS)]} == set(KINDS)
    for fault in faults:
        targets, (low, high) = KINDS[fault.kind]
        assert fault.target in targets
        assert low <= fault.seconds <= high


def test_at_once_strike_one_blow_and_at_most_one_ill() -> None:
    for together in islice(schedule(7), 5 * len(KINDS)):
        ills = [f for f in together if f.kind in ILLS]
        assert len(ills) <= 1
        assert len(together) - len(ills) <= 1
