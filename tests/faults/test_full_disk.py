"""A disk that becomes full under a whole queue: it says so, waits, loses nothing, and goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakequeue_cli.supervisor.log_files import MOST_BYTES

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow, pytest.mark.faults, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What happened; in a mount namespace of its own, which needs no rights of root."""
    folder = tmp_path_factory.mktemp("disk")
    alone = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--user", "--map-root-user"])
    command = [*alone, sys.executable, "-m", "tests.support.runs.full_disk", str(folder)]
    here = Path(__file__).parents[2]
    ran = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-4_000:]
    seen: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return seen


def test_answers_are_no_faults_and_may_be_tried_again(found: dict[str, Any]) -> None:
    refused = [(status, retryable) for status, retryable in found["answers"] if status != 200]
    assert refused
    assert {status for status, _ in refused} <= {503, 507}
    assert all(retryable for _, retryable in refused)
    assert found["health"] == 200


def test_acks_may_be_tried_again_as_well_and_count_once(found: dict[str, Any]) -> None:
    refused = [(status, retryable) for status, retryable in found["acks"] if status != 200]
    assert refused
    assert {status for status, _ in refused} <= {503, 507}
    assert all(retryable for _, retryable in refused)
    assert found["acked_came_again"] == []


def test_who_died_of_it_says_so_waits_and_comes_back(found: dict[str, Any]) -> None:
    for name in ("zookeeper", "driver-1"):
        said = [what for who, what in found["reports"] if who == name]
        waited = next(n for n, what in enumerate(said) if "is full" in what)
        assert any("there is room again" in what for what in said[waited:]), said
        assert any("ready again" in what for what in said[waited:]), said


def test_nothing_that_was_acknowledged_is_lost(found: dict[str, Any]) -> None:
    assert found["lost"] == []


def test_logs_are_bounded(found: dict[str, Any]) -> None:
    assert found["logs"]
    assert max(found["logs"].values()) < MOST_BYTES
