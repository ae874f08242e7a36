"""A whole queue under random faults of fixed seeds: no anomaly. The long one is `make soak`.

Every process is real but for Spark (`tests/support/light_driver.py`); with Spark, and with each
kind killed in turn: `tests/e2e/test_kills.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from tests.support.faulty_cluster import FaultyCluster
from tests.support.nemesis import KINDS, schedule
from tests.support.soak import Soak

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow, pytest.mark.timeout(600)]
RATE = 60
SEEDS = {
    1: ("kill", "zookeeper-rebuilt", "zookeeper-slow", "commits-unanswered", "maintenance"),
    2: ("kill-leader", "cut", "writes-fail", "slow-lists", "clock-jump", "freeze"),
    3: ("freeze-leader", "zookeeper-silent", "zookeeper-killed", "disk-full", "checkpoint-deleted"),
}
"""Seed → the kinds of its only round; all kinds come in one of them."""


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyCluster]:
    """One queue for all seeds: each has topics and groups of its own."""
    with FaultyCluster(tmp_path_factory.mktemp("faulty"), spark=False) as running:
        running.cluster.wait_ready()
        yield running


@pytest.mark.parametrize("seed", SEEDS)
def test_random_faults_leave_no_anomaly(faulty: FaultyCluster, tmp_path: Path, seed: int) -> None:
    kinds = SEEDS[seed]
    faults = list(islice(schedule(seed, kinds), len(kinds)))
    print(f"seed {seed}: {'; '.join(map(str, faults))}")
    faulty.cluster.wait_ready()
    verdict = Soak(faulty, tmp_path, f"seed-{seed}", RATE).run(faults, seed)
    assert verdict.ok, str(verdict)
    assert verdict.acknowledged > 0


def test_every_kind_of_fault_is_in_one_of_the_seeds() -> None:
    assert {kind for kinds in SEEDS.values() for kind in kinds} == set(KINDS)
