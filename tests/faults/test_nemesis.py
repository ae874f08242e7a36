"""Random faults of a fixed seed, on a whole queue under load: the checker finds nothing.

The whole queue but for Spark (`tests/support/runs/light_driver.py`); with Spark, and with each
kind killed in turn: `tests/e2e/test_kills.py`. What is done to Spark's checkpoints:
`test_order_driver.py`.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from tests.support.faults.faulty_cluster import FaultyCluster
from tests.support.faults.nemesis import BLOWS, ILLS, schedule
from tests.support.soak import Soak

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow, pytest.mark.faults, pytest.mark.timeout(600)]
RATE = 60
SEED = 2200
"""One by which nodes that cannot read are alone with that: somebody else is there to go to."""


def test_one_round_of_all_faults_leaves_no_anomaly(tmp_path: Path) -> None:
    """Each ill strikes together with a blow, so a round takes the time of the blows."""
    faults = list(islice(schedule(SEED, [*BLOWS, *ILLS]), len(BLOWS)))
    assert {f.kind for together in faults for f in together} == {*BLOWS, *ILLS}
    history = tmp_path / "history"
    history.mkdir()
    with FaultyCluster(tmp_path, spark=False) as faulty:
        faulty.cluster.wait_ready()
        verdict = Soak(faulty, history, "round", RATE).run(faults, SEED)
    assert verdict.ok, str(verdict)
    assert verdict.acknowledged > 0
