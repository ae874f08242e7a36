"""What makes a batch fail is found, and nothing else is blamed."""

from __future__ import annotations

import random

import numpy as np
import pytest

from jobs.rows.halving import Units, find_guilty


class Trials:
    """Fails when a set of units is there whole."""

    def __init__(self, *sets: set[int]) -> None:
        self.sets = sets
        self.count = 0

    def __call__(self, units: Units) -> Exception | None:
        self.count += 1
        there = set(units.tolist())
        for guilty in self.sets:
            if guilty <= there:
                return ValueError(f"{sorted(guilty)}")
        return None


def found_in(count: int, trials: Trials, most: int = 2_000) -> set[int]:
    return {int(u) for guilty in find_guilty(count, trials, most) for u in guilty.units}


def test_units_that_pass_are_not_blamed() -> None:
    assert find_guilty(1_000, Trials()) == []
    assert find_guilty(0, Trials({0})) == []


@pytest.mark.parametrize("seed", range(20))
def test_each_guilty_unit_is_found_and_no_other(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(1, 3_000)
    guilty = {rng.randrange(count) for _ in range(rng.randint(1, 8))}
    assert found_in(count, Trials(*({g} for g in guilty))) == guilty


def test_units_that_fail_only_together_lose_one() -> None:
    trials = Trials({3, 900}, {10, 20, 30})
    found = found_in(1_000, trials)
    assert len(found & {3, 900}) == 1
    assert len(found & {10, 20, 30}) == 1
    assert len(found) == 2


def test_the_error_of_each_is_its_own() -> None:
    found = find_guilty(100, Trials({5}, {80}))
    assert [(g.units.tolist(), str(g.error)) for g in found] == [([5], "[5]"), ([80], "[80]")]


def test_one_guilty_unit_of_a_large_batch_takes_few_trials() -> None:
    trials = Trials({54_321})
    assert found_in(80_000, trials) == {54_321}
    assert trials.count < 40


def test_hundreds_of_guilty_units_take_no_other_with_them() -> None:
    guilty = set(random.Random(1).sample(range(80_000), 500))

    def fails(units: Units) -> Exception | None:
        return None if guilty.isdisjoint(units.tolist()) else ValueError("guilty")

    found = find_guilty(80_000, fails)
    assert {int(u) for one in found for u in one.units} == guilty


def test_trials_are_bounded_and_the_guilty_are_among_what_is_blamed() -> None:
    guilty = set(range(0, 10_000, 3))
    trials = Trials(*({g} for g in guilty))
    found = found_in(10_000, trials, most=300)
    assert guilty <= found
    assert trials.count < 1_000


def test_all_guilty_are_all_found() -> None:
    trials = Trials(*({g} for g in range(64)))
    assert found_in(64, trials) == set(range(64))
    assert np.isfinite(trials.count)


def test_units_that_are_nearly_all_guilty_take_little_more_than_a_trial_each() -> None:
    trials = Trials(*({n} for n in range(1_000)))
    assert found_in(1_000, trials) == set(range(1_000))
    assert trials.count < 1_150


def test_after_a_dense_part_a_sound_one_takes_few_trials() -> None:
    trials = Trials(*({n} for n in range(200)), {90_000})
    assert found_in(100_000, trials) == {*range(200), 90_000}
    assert trials.count < 400


@pytest.mark.parametrize("seed", range(10))
def test_whatever_part_is_guilty_each_is_found(seed: int) -> None:
    rng = random.Random(seed)
    share = rng.choice([0.05, 0.4, 0.6, 0.95])
    guilty = {n for n in range(500) if rng.random() < share}
    trials = Trials(*({n} for n in guilty))
    assert found_in(500, trials) == guilty
    assert trials.count <= 2 * 500
