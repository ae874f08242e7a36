"""A bulk write is killed at every step, and run again: each record is ordered once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from lakequeue.clock import wall_micros
from lakequeue.errors import ClockSkew, CommitConflict
from lakequeue.records import Offset, Partition, ShardName
from lakequeue.steps import Step
from queue_tables.delta.maintenance import VACUUM_INFO
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.delta.table import TableLog
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.schema.topic_rules import Topic
from queue_tables.shards.bulk import BulkFile, commit_bulk
from queue_tables.shards.shards import is_sealed, seal_shard
from queue_tables.topics import TopicStore
from tests.support.faults.stopped import is_stopped
from tests.support.kinds import one_now
from tests.support.runs.bulk_process import WRITER, run_batch, values_of, write_files
from tests.support.runs.maintenance_process import run_compaction, start
from tests.support.runs.order_process import Orderer
from tests.support.services.zookeeper import wait_for

STEPS = [Step.BULK_DATA_WRITTEN, Step.BULK_SETTLED, Step.BULK_COMMITTED]


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    return QueueRoot.open(str(tmp_path / "queue"))


@pytest.fixture
def topic(root: QueueRoot) -> Topic:
    return TopicStore(root).create("orders", partitions=1)[0]


def ordered(root: QueueRoot, topic: Topic, epoch: int = 1) -> list[bytes]:
    """All values of the topic, after everything was ordered."""
    Orderer(root, epoch).drain()
    log = LogReader(root)
    partition, count = Partition(0), int(log.end_offset(topic.topic_id, Partition(0)))
    rows = log.read_range(topic.topic_id, partition, Offset(0), max(count, 1))
    return [bytes(value) for value in rows.column("value").to_pylist()]


def command(root: QueueRoot, topic: Topic, run: str, batch: int, crash_at: str) -> list[str]:
    return [
        *(sys.executable, "-m", "tests.support.runs.bulk_process", "--root", root.uri),
        *("--topic-id", topic.topic_id, "--run", run, "--batch", str(batch)),
        *("--crash-at", crash_at),
    ]


def kill_at(step: Step, root: QueueRoot, topic: Topic, run: str, batch: int) -> None:
    ours = command(root, topic, run, batch, step.value)
    done = subprocess.run(ours, check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def on_disk(root: QueueRoot) -> set[str]:
    """The data files in the inbox, whether a shard has them or not."""
    return {str(p.relative_to(root.uri)) for p in Path(root.uri, "inbox").glob("*/hour=*/*")}


def named(root: QueueRoot) -> set[str]:
    """Those that shards have."""
    shards = [f"inbox/{shard}" for shard in root.shards("inbox")]
    return {f"{path}/{file}" for path in shards for file in load_snapshot(root.store, path).files}


def age_by_a_day(root: QueueRoot) -> None:
    then = time.time() - 25 * 3_600
    for path in on_disk(root):
        os.utime(Path(root.uri, path), (then, then))


def tomorrow() -> int:
    return wall_micros() + 25 * 3_600 * 1_000_000


@pytest.mark.parametrize("step", one_now(STEPS))
def test_killed_at_a_step_and_run_again_nothing_is_lost_or_doubled(
    step: Step, root: QueueRoot, topic: Topic
) -> None:
    assert run_batch(root, topic.topic_id, "run1", 0)
    kill_at(step, root, topic, "run1", 1)
    if step is not Step.BULK_COMMITTED:  # then the next run finds the batch and ends well
        kill_at(step, root, topic, "run2", 1)
    assert run_batch(root, topic.topic_id, "run3", 1) is (step is not Step.BULK_COMMITTED)
    assert run_batch(root, topic.topic_id, "run3", 2)
    assert ordered(root, topic) == values_of(3)


def test_a_batch_of_many_files_is_ordered_in_one_version(root: QueueRoot, topic: Topic) -> None:
    run_batch(root, topic.topic_id, "run1", 0)
    before = LogReader(root).version
    orderer = Orderer(root, 1)
    begun = LogReader(root).version
    assert [batch["rows"] for batch in orderer.drain()] == [20]
    assert LogReader(root).version == begun + 1 > before


def test_a_run_that_was_superseded_can_add_nothing_and_loses_nothing(
    root: QueueRoot, topic: Topic
) -> None:
    """The old run has written its files, and wakes up when a new one has committed the batch."""
    run_batch(root, topic.topic_id, "old", 0)
    late = write_files(root, topic.topic_id, "old", 1)
    assert run_batch(root, topic.topic_id, "new", 1)
    assert is_sealed(root, "inbox", ShardName(f"{WRITER}-old"))
    assert commit_bulk(root, WRITER, "old", 1, late) is None
    assert not any(root.store.exists(f"inbox/{f.shard}/{f.add.path}") for f in late)
    assert ordered(root, topic) == values_of(2)


def test_runs_that_are_alive_at_once_get_each_batch_in_once(root: QueueRoot, topic: Topic) -> None:
    batches = 6
    errors: list[BaseException] = []
    start = threading.Barrier(3)

    def work(run: str) -> None:
        start.wait()
        mine = QueueRoot.existing(root.uri)
        for batch in range(batches):
            try:
                run_batch(mine, topic.topic_id, run, batch)
            except (ClockSkew, CommitConflict):
                # The other run was ahead, by stamp or by seal: a query is started again.
                run_batch(mine, topic.topic_id, f"{run}again{batch}", batch)
            except BaseException as error:  # noqa: BLE001 -- raised in the test's thread
                errors.append(error)
                return

    threads = [threading.Thread(target=work, args=(f"run{n}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert ordered(root, topic) == values_of(batches)


def test_a_shard_sealed_as_abandoned_is_followed_by_another_of_the_same_run(
    root: QueueRoot, topic: Topic
) -> None:
    assert run_batch(root, topic.topic_id, "run1", 0)
    seal_shard(root, "inbox", ShardName(f"{WRITER}-run1"))
    assert run_batch(root, topic.topic_id, "run1", 1)
    assert not run_batch(root, topic.topic_id, "run1", 1)
    assert ordered(root, topic) == values_of(2)


def test_a_committed_batch_given_again_keeps_its_files(root: QueueRoot, topic: Topic) -> None:
    files = write_files(root, topic.topic_id, "run1", 0)
    assert commit_bulk(root, WRITER, "run1", 0, files) is not None
    assert commit_bulk(root, WRITER, "run1", 0, files) is None
    assert ordered(root, topic) == values_of(1)


def test_a_clock_that_went_back_is_refused(root: QueueRoot, topic: Topic) -> None:
    early = write_files(root, topic.topic_id, "run1", 1)
    assert run_batch(root, topic.topic_id, "run1", 0)
    with pytest.raises(ClockSkew, match="behind the batch before"):
        commit_bulk(root, WRITER, "run1", 1, early)


@pytest.mark.parametrize("step", one_now([Step.VACUUM_FENCED, Step.VACUUM_REMOVING]))
def test_what_killed_tasks_have_written_goes_a_day_later_and_no_record_with_it(
    step: Step, root: QueueRoot, topic: Topic
) -> None:
    assert run_batch(root, topic.topic_id, "run1", 0)
    kill_at(Step.BULK_DATA_WRITTEN, root, topic, "run1", 1)
    kill_at(Step.BULK_DATA_WRITTEN, root, topic, "run2", 1)  # which has no shard yet
    kept = named(root)
    assert len(on_disk(root) - kept) == 2
    assert run_compaction(root, tomorrow())["vacuum"]["inbox"]["files_deleted"] == 0
    assert len(on_disk(root) - kept) == 2, "they are young, whatever their hour"
    age_by_a_day(root)
    dry = run_compaction(root, tomorrow(), dry_run=True)["vacuum"]["inbox"]
    assert (dry["files_deleted"], len(on_disk(root) - kept)) == (2, 2)
    assert start("compaction", root, tomorrow(), "--crash-at", step).wait(110) == -signal.SIGKILL
    assert start("compaction", root, tomorrow()).wait(110) == 0
    assert on_disk(root) == named(root) == kept
    assert run_batch(root, topic.topic_id, "run3", 1)
    assert ordered(root, topic) == values_of(2)


def test_a_write_that_took_longer_than_a_day_is_refused_and_adds_nothing(
    root: QueueRoot, topic: Topic
) -> None:
    def a_day_old(file: BulkFile) -> BulkFile:
        made = file.add.modification_time - 25 * 3_600_000
        return replace(file, add=replace(file.add, modification_time=made))

    early = [a_day_old(file) for file in write_files(root, topic.topic_id, "run1", 0)]
    age_by_a_day(root)
    run_compaction(root, tomorrow())
    with pytest.raises(CommitConflict, match="was vacuumed before it was committed"):
        commit_bulk(root, WRITER, "run1", 0, early)
    assert run_batch(root, topic.topic_id, "run1", 0)
    assert ordered(root, topic) == values_of(1)


def test_a_driver_that_slept_through_a_vacuum_before_its_commit_adds_nothing(
    root: QueueRoot, topic: Topic
) -> None:
    ours = command(root, topic, "run1", 0, f"{Step.BULK_SETTLED}:1:stop")
    driver = subprocess.Popen(ours, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: is_stopped(driver.pid), "it stands still before its commit", 60)
    table = TableLog(root.store, f"inbox/{WRITER}-run1").open()
    table.commit([], {VACUUM_INFO: wall_micros() // 1_000})
    driver.send_signal(signal.SIGCONT)
    said = driver.communicate(timeout=60)[1]
    assert driver.returncode == 1
    assert "was vacuumed before it was committed" in said
    assert named(root) == set()
    assert run_batch(root, topic.topic_id, "run2", 0)
    assert ordered(root, topic) == values_of(1)
