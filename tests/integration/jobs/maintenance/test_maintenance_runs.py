"""The order leader starts maintenance as processes, one after the other, again and again."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from deltalake import DeltaTable

from jobs.ordering.maintenance_runs import JOBS, LONGEST_S, MaintenanceRuns, jobs_of
from lakequeue.clock import wall_micros
from lakequeue.settings import OrderSettings
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from tests.support.data.log_builder import LogBuilder


class Clock:
    """Seconds that pass when told to."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def wait_end(runs: MaintenanceRuns) -> int:
    """Its exit code."""
    process = runs.running()
    assert process is not None
    return process.wait(60)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_each_job_runs_once_an_interval_one_after_the_other(root: QueueRoot, clock: Clock) -> None:
    long_ago = wall_micros() - 9 * 3_600 * 1_000_000
    log = LogBuilder(root, wall=lambda: long_ago)
    topic = TopicStore(root).create("orders", partitions=1, retention_ms=6 * 3_600_000)[0]
    log.append(topic, ["a"])
    log.append(topic, ["b"])
    runs = MaintenanceRuns(root.uri, 600.0, clock)
    runs.run_if_due()
    assert runs.running() is None, "not at once"
    clock.now += 600
    for _ in JOBS:
        runs.run_if_due()
        first = runs.running()
        runs.run_if_due()
        assert runs.running() is first, "one at a time"
        assert wait_end(runs) == 0
    runs.run_if_due()
    assert runs.running() is None, "the next time is an interval away"
    snapshot = load_snapshot(root.store, "log")
    assert snapshot.files == {}
    measured = DeltaTable(f"{root.uri}/metrics").to_pyarrow_table(columns=["records_in"])
    assert sum(measured.column("records_in").to_pylist()) == 2, "before what expired was let go"
    clock.now += 600
    runs.run_if_due()
    assert wait_end(runs) == 0


def test_a_run_that_is_killed_is_followed_by_the_next(root: QueueRoot, clock: Clock) -> None:
    runs = MaintenanceRuns(root.uri, 1.0, clock)
    clock.now += 1
    runs.run_if_due()
    process = runs.running()
    assert process is not None
    process.kill()
    wait_end(runs)
    runs.run_if_due()
    assert wait_end(runs) == 0


def test_a_run_that_hangs_is_killed_and_followed_by_the_next(root: QueueRoot, clock: Clock) -> None:
    runs = MaintenanceRuns(root.uri, 1.0, clock)
    clock.now += 1
    runs.run_if_due()
    process = runs.running()
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    clock.now += LONGEST_S + 1
    runs.run_if_due()
    assert wait_end(runs) == -signal.SIGKILL
    runs.run_if_due()
    assert wait_end(runs) == 0


def test_a_leader_can_be_told_not_to_measure() -> None:
    assert jobs_of(OrderSettings()) == JOBS
    assert jobs_of(OrderSettings(metrics=False)) == JOBS[1:]


def test_zero_means_never(root: QueueRoot, clock: Clock) -> None:
    runs = MaintenanceRuns(root.uri, 0.0, clock)
    clock.now += 10**6
    runs.run_if_due()
    assert runs.running() is None


def test_a_root_that_is_gone_is_told_and_ends_nothing(tmp_path: Path, clock: Clock) -> None:
    runs = MaintenanceRuns(str(tmp_path / "none"), 1.0, clock)
    clock.now += 1
    runs.run_if_due()
    assert wait_end(runs) == 4
    runs.run_if_due()
    assert wait_end(runs) == 4
    assert not (tmp_path / "none").exists()
