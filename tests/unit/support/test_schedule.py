"""Schedules of faults come from their seed alone."""

from __future__ import annotations

from itertools import islice

from tests.support.nemesis import KINDS, schedule


def test_a_seed_makes_one_schedule_and_another_seed_another() -> None:
    first = list(islice(schedule(7), 40))
    assert first == list(islice(schedule(7), 40))
    assert first != list(islice(schedule(8), 40))


def test_each_round_has_every_kind_once_within_its_bounds() -> None:
    faults = list(islice(schedule(7), 3 * len(KINDS)))
    for at in range(0, len(faults), len(KINDS)):
        assert {f.kind for f in faults[at : at + len(KINDS)]} == set(KINDS)
    for fault in faults:
        targets, (low, high) = KINDS[fault.kind]
        assert fault.target in targets
        assert low <= fault.seconds <= high
