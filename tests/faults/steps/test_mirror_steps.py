"""The mirror job is killed at each of its steps: a prefix is there, and the next run ends it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.copies.mirror_copy import Mirror, promote, take_source_snapshot
from lakequeue.errors import CommitConflict, InvalidRequest
from lakequeue.steps import Step
from queue_tables.delta.table import TableLog
from queue_tables.replica import ReplicaTable
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from tests.support.data.replicas import fill, first_life, is_prefix, is_same, second_life
from tests.support.faults.stopped import is_stopped
from tests.support.forking.forked import Forked
from tests.support.kinds import one_now
from tests.support.runs.mirror_process import run_job, run_mirror
from tests.support.services.zookeeper import wait_for

PROJECT = Path(__file__).resolve().parents[3]
PROMOTION = {Step.MIRROR_FENCED, Step.MIRROR_PROMOTED}
CRASHES = [
    *(s for s in Step if s.startswith("mirror.") and s not in PROMOTION),
    f"{Step.MIRROR_DATA_WRITTEN}:2",
]
COPY_CRASHES = [f"{Step.MIRROR_DATA_WRITTEN}:3", f"{Step.MIRROR_ROWS_COMMITTED}:2"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A queue, a replica of its first hours, and all that has happened since."""
    folder = tmp_path_factory.mktemp("made")
    source = QueueRoot.open(str(folder / "source"))
    first_life(source)
    run_mirror(source, str(folder / "replica"))
    second_life(source)
    return folder


@pytest.fixture
def queues(made: Path, tmp_path: Path) -> tuple[QueueRoot, str]:
    """Both for each test: the source, and where the replica is."""
    shutil.copytree(made, tmp_path / "made")
    return QueueRoot.existing(str(tmp_path / "made/source")), str(tmp_path / "made/replica")


def start(source: QueueRoot, to: str, *args: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.support.runs.mirror_process", "--root", source.uri]
    return Forked([*command, "--to", to, *args], cwd=PROJECT)


@pytest.mark.parametrize("crash", one_now(CRASHES))
def test_killed_at_a_step_it_is_a_prefix_and_the_next_run_ends_it(
    queues: tuple[QueueRoot, str], crash: str
) -> None:
    source, to = queues
    assert start(source, to, "--crash-at", crash).wait(60) == -signal.SIGKILL
    is_prefix(QueueRoot.existing(to, replica_too=True), source)
    run_mirror(source, to)
    replica = QueueRoot.existing(to, replica_too=True)
    is_same(replica, source)
    version = TableLog(replica.store, "log").open().version
    assert run_mirror(source, to).commits == 0
    assert TableLog(replica.store, "log").open().version == version


@pytest.mark.parametrize("crash", one_now(COPY_CRASHES))
def test_a_first_copy_that_is_killed_goes_on_where_it_was(
    queues: tuple[QueueRoot, str], tmp_path: Path, crash: str
) -> None:
    source, to = queues[0], str(tmp_path / "fresh")
    steps = ("--step-bytes", "1")
    assert start(source, to, *steps, "--crash-at", crash).wait(60) == -signal.SIGKILL
    replica = QueueRoot.existing(to, replica_too=True)
    is_prefix(replica, source)
    table = ReplicaTable(replica, "log", source.queue_id)
    assert len(table.log.files) == 2
    other = QueueRoot.replica(f"{to}-of-it", replica)
    run_mirror(replica, other.uri)
    for half, of in ((replica, source), (other, replica)):
        with pytest.raises(InvalidRequest, match="long way"):
            run_job(half.uri, "--to", half.uri, "--promote", "--dry-run")
        # Judged in the commit that shuts the mirror out: it might have set out since a look.
        with pytest.raises(InvalidRequest, match="long way"):
            promote(half, of.queue_id)
    run_mirror(source, to, step_bytes=1)
    assert set(table.log.files) < set(ReplicaTable(replica, "log", source.queue_id).log.files)
    is_same(QueueRoot.existing(to, replica_too=True), source)


def test_a_run_with_an_older_cut_takes_nothing_back_from_one_on_a_long_way(
    queues: tuple[QueueRoot, str],
) -> None:
    source, to = queues
    run_mirror(source, to)
    orders = TopicStore(source).get("orders")
    fill(source, 3, 1, "g", [orders])
    older = take_source_snapshot(source)
    fill(source, 4, 1, "hi", [orders])
    crash = f"{Step.MIRROR_ROWS_COMMITTED}:2"
    assert start(source, to, "--step-bytes", "1", "--crash-at", crash).wait(60) == -signal.SIGKILL
    replica = QueueRoot.existing(to, replica_too=True)
    there = TableLog(replica.store, "log").open().files
    with pytest.raises(CommitConflict, match="gone further"):
        Mirror(source, replica, 1 << 30, lambda _: older).run()
    assert TableLog(replica.store, "log").open().files == there
    run_mirror(source, to)
    is_same(replica, source)


def test_runs_at_once_apply_everything_once(queues: tuple[QueueRoot, str]) -> None:
    source, to = queues
    runs = [start(source, to) for _ in range(3)]
    assert [run.wait(60) for run in runs] == [0, 0, 0]
    is_same(QueueRoot.existing(to, replica_too=True), source)


@pytest.mark.parametrize(
    "crash", one_now([*(f"{Step.MIRROR_FENCED}:{n}" for n in (1, 2, 3)), Step.MIRROR_PROMOTED])
)
def test_a_promotion_that_is_killed_is_made_good_by_the_next(
    queues: tuple[QueueRoot, str], crash: str
) -> None:
    source, to = queues
    run_mirror(source, to)
    command = [sys.executable, "-m", "jobs.mirror", "--to", to, "--promote", "--crash-at", crash]
    assert subprocess.run(command, cwd=PROJECT, check=False).returncode == -signal.SIGKILL
    there = QueueRoot.existing(to, replica_too=True)
    assert (there.replica_of is None) == (crash == Step.MIRROR_PROMOTED)
    is_same(there, source)
    assert run_job(to, "--to", to, "--promote")["promoted"]
    assert QueueRoot.open(to, create=False).queue_id != source.queue_id


@pytest.mark.parametrize("step", one_now([Step.MIRROR_CUT, Step.MIRROR_DATA_WRITTEN]))
def test_a_mirror_that_was_frozen_writes_nothing_into_what_was_promoted(
    queues: tuple[QueueRoot, str], step: Step
) -> None:
    source, to = queues
    frozen = start(source, to, "--crash-at", f"{step}:1:stop")
    wait_for(lambda: is_stopped(frozen.pid))
    replica = QueueRoot.existing(to, replica_too=True)
    promote(replica, source.queue_id)
    tables = ("topics", "log", "group_offsets")
    versions = [TableLog(replica.store, table).open().version for table in tables]
    os.kill(frozen.pid, signal.SIGCONT)
    assert frozen.wait(60) == 3
    assert [TableLog(replica.store, table).open().version for table in tables] == versions
