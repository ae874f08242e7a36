"""Vacuum, and commits that a checkpoint stands for: nobody misses what goes."""

from __future__ import annotations

import os
import time as clock
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from jobs.ordering.order_state import order_number
from jobs.ordering.rejects import fenced_commit
from lakequeue.clock import hour_of, wall_micros
from lakequeue.errors import LeadershipLost
from lakequeue.records import Epoch, Offset, Partition, Stamp, TopicId
from queue_tables.delta.actions import Remove, Txn
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import Tail, commit_versions, find_version
from queue_tables.files.parquet import read_data_file
from queue_tables.groups.fact_rows import to_arrow
from queue_tables.groups.facts import Fact, Kind
from queue_tables.groups.state import read_group_state
from queue_tables.log.reader import LogReader
from queue_tables.log.writer import write_log_file
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import ORDER_TXN
from queue_tables.shards.shards import ShardWriter
from queue_tables.topics import TopicStore
from queue_tables.upkeep.clean_up import clean_commits, vacuum_table
from queue_tables.upkeep.delta_rs import checkpoint_table
from tests.support.data.log_builder import LogBuilder
from tests.support.data.maintained import read, two_topics
from tests.support.data.order_truth import Inbox, rows_in
from tests.support.data.rows import inbox_rows
from tests.support.data.wall import HOUR, Wall
from tests.support.runs.maintenance_process import run_compaction
from tests.support.runs.order_process import Orderer

NOW = wall_micros()
THEN = NOW - 5 * HOUR


@pytest.fixture
def time() -> Wall:
    """Five hours ago, a second a look."""
    return Wall(THEN - THEN % HOUR, 1_000_000)


def aged(path: Path, hours: float) -> None:
    at = clock.time() - hours * 3_600
    os.utime(path, (at, at))


def test_vacuum_takes_what_left_the_table_and_what_never_came_after_the_grace(
    root: QueueRoot, time: Wall
) -> None:
    two_topics(root, time)
    folder = Path(root.uri, "log", f"hour={hour_of(time.now)}")
    rows = read_data_file(root.store, "log", next(iter(load_snapshot(root.store, "log").files)))
    old, young = (write_log_file(root.store, rows, hour_of(time.now)) for _ in range(2))
    for path in folder.glob("*.parquet"):
        aged(path, 20)
    aged(Path(root.uri, "log", young.path), 5)
    assert vacuum_table(root, "log", 6, dry_run=True).files == 1
    report = run_compaction(root, NOW)
    assert report["vacuum"]["log"]["files_deleted"] == 1
    names = {path.name for path in folder.glob("*.parquet")}
    assert len(names) == 12 + 2 + 1, "compacted files wait, though they are older than the grace"
    assert Path(old.path).name not in names
    assert Path(young.path).name in names
    live = {Path(path).name for path in load_snapshot(root.store, "log").files}
    assert vacuum_table(root, "log", 0, dry_run=False).files == 13
    assert {path.name for path in folder.glob("*.parquet")} == live
    version = TableLog(root.store, "log").open().version
    assert vacuum_table(root, "log", 0, dry_run=False).files == 0
    assert TableLog(root.store, "log").open().version == version


def test_a_leader_that_slept_with_its_files_written_does_not_commit_what_was_vacuumed(
    root: QueueRoot, time: Wall
) -> None:
    topic, _ = two_topics(root, time, batches=1)
    leader = TableLog(root.store, "log", keep_files=False).open()
    rows = read_data_file(root.store, "log", next(iter(load_snapshot(root.store, "log").files)))
    written = write_log_file(root.store, rows, hour_of(time.now))
    vacuum_table(root, "log", 0, dry_run=False)
    txn = Txn(ORDER_TXN, order_number(1, 99))
    with pytest.raises(LeadershipLost, match="a vacuum came while this leader slept"):
        fenced_commit(leader, [written, txn], {}, Epoch(1))
    assert len(read(LogReader(root), topic)) == 1
    # With files written since it goes on.
    fresh = write_log_file(root.store, rows, hour_of(time.now))
    stale = TableLog(root.store, "log", keep_files=False).open()
    TableLog(root.store, "log").open().commit([], {"vacuum": fresh.modification_time - 3_600_000})
    fenced_commit(stale, [fresh, txn], {}, Epoch(1))
    assert fresh.path in load_snapshot(root.store, "log").files


def test_a_leader_that_was_idle_while_maintenance_went_on_and_was_cleaned_up_resigns(
    root: QueueRoot, time: Wall
) -> None:
    topic, _ = two_topics(root, time, batches=1)
    leader = TableLog(root.store, "log", keep_files=False).open()
    for _ in range(3):
        TableLog(root.store, "log").open().commit([], {"vacuum": 1})
    checkpoint_table(root, "log")
    assert clean_commits(root, "log", later_ms()) > 0
    txns = TableLog(root.store, "log").open().txns
    with pytest.raises(LeadershipLost, match="cleaned up"):
        fenced_commit(leader, [Txn(ORDER_TXN, order_number(1, 99))], {}, Epoch(1))
    assert TableLog(root.store, "log").open().txns == txns
    assert len(read(LogReader(root), topic)) == 1


# -- commits --------------------------------------------------------------------------------------


def later_ms(hours: float = 2) -> int:
    return int((clock.time() + hours * 3_600) * 1_000)


def test_commits_go_that_a_checkpoint_has_stood_for_and_readers_go_on(
    root: QueueRoot, log: LogBuilder
) -> None:
    topic = log.topic("orders")
    for n in range(10):
        log.append(topic, [f"{n}"])
    early, slow = (
        LogReader(root),
        Tail(root.store, "log", TableLog(root.store, "log").open().version),
    )
    version = checkpoint_table(root, "log")
    log.append(topic, ["10"])
    assert clean_commits(root, "log", later_ms(0)) == 0, "it has not stood for an hour"
    assert clean_commits(root, "log", later_ms(), dry_run=True) == version
    assert clean_commits(root, "log", later_ms()) == version
    assert commit_versions(root.store, "log")[0] == version
    (fresh,) = slow.poll()
    assert fresh.appends
    for reader in (early, LogReader(root)):
        reader.refresh()
        assert read(reader, topic) == [b"%d" % n for n in range(11)]
    assert log.append(topic, ["11"]) == [11]
    assert DeltaTable(f"{root.uri}/log").to_pyarrow_table().num_rows == 12
    assert clean_commits(root, "log", later_ms()) == 0


def test_a_checkpoint_that_cannot_be_read_stands_for_nothing(
    root: QueueRoot, log: LogBuilder
) -> None:
    topic = log.topic("orders")
    log.append(topic, ["0"])
    version = checkpoint_table(root, "log")
    path = Path(root.uri, "log", "_delta_log", f"{version:020d}.checkpoint.parquet")
    path.write_bytes(path.read_bytes()[:-20])
    assert clean_commits(root, "log", later_ms()) == 0
    assert read(LogReader(root), topic) == [b"0"]


def test_commits_of_a_shard_stay_while_they_are_not_ordered(root: QueueRoot, time: Wall) -> None:
    topic = TopicStore(root).create("orders", partitions=1)[0]
    inbox = Inbox(root, "n")
    for n in range(3):
        inbox.commit(time.now + n, [{"topic_id": topic.topic_id, "value": b"%d" % n}])
    Orderer(root, 1, wall=time).drain()
    for n in range(3, 6):
        inbox.commit(time.now + n, [{"topic_id": topic.topic_id, "value": b"%d" % n}])
    path = f"inbox/{inbox.name}"
    checkpoint_table(root, path)
    below = find_version(root.store, path, time.now + 2)
    assert clean_commits(root, path, later_ms(), below) == 3
    assert commit_versions(root.store, path) == [3, 4, 5, 6]
    inbox.commit(time.now + 6, [{"topic_id": topic.topic_id, "value": b"6"}])
    Orderer(root, 2, wall=time).drain()
    assert [row["value"] for row in rows_in(root, "log")] == [b"%d" % n for n in range(7)]


def test_a_shards_checkpoint_does_not_tell_of_old_removals_for_ever(root: QueueRoot) -> None:
    """Its files are deleted when they leave it; a busy shard would carry millions of them."""
    inbox = ShardWriter.create(root, "inbox", "n")
    inbox.append(inbox_rows([b"a"]), Stamp(THEN))
    table = TableLog(root.store, inbox.path).open()
    long_ago = int((clock.time() - 7_200) * 1_000)
    (old,) = table.files.values()
    table.commit([Remove(old.path, long_ago, True, old.partition_values, old.size)])
    version = checkpoint_table(root, inbox.path)
    name = f"{inbox.path}/_delta_log/{version:020d}.checkpoint.parquet"
    removes = pq.read_table(Path(root.uri, name), columns=["remove"])["remove"]
    assert removes.null_count == len(removes)


def position(offset: int) -> Fact:
    return Fact(Kind.COMMITTED, "g", "t", TopicId("t"), Partition(0), 0, Epoch(1), Offset(offset))


def test_shards_and_topics_are_checkpointed_by_the_job_and_their_owners_go_on(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.maintenance.table_upkeep.CHECKPOINT_EVERY", 5)
    inbox = ShardWriter.create(root, "inbox", "n")
    journal = ShardWriter.create(root, "journal", "c")
    for n in range(6):
        TopicStore(root).create(f"t{n}")
        inbox.append(inbox_rows([b"v"]), Stamp(THEN + n))
        journal.append(to_arrow([position(n)]), Stamp(THEN + n))
    before = read_group_state(root).states
    report = run_compaction(root, wall_micros() + 2 * HOUR)["commits"]
    assert sorted(report["checkpoints"]) == sorted([inbox.path, journal.path, "topics"])
    assert report["deleted"] == 6, "of `topics`: nothing is ordered or folded"
    assert len(TopicStore(root).list()) == 6
    inbox.append(inbox_rows([b"v"]), Stamp(NOW))
    journal.append(to_arrow([position(5)]), Stamp(NOW))
    assert read_group_state(root).states == before
