"""A checkpoint by delta-rs changes nothing for readers, and is durable."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from lakequeue.records import Epoch, Offset, Partition, ShardName, Stamp, TopicId, Version
from queue_tables.delta.actions import CommitInfo, commit_path, encode
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.delta.store import Store
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import commit_versions
from queue_tables.groups.facts import Fact, Kind, fold
from queue_tables.groups.state import GroupOffsetsWriter, GroupStateReader, read_group_offsets
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from queue_tables.upkeep import delta_rs as upkeep
from queue_tables.upkeep.clean_up import left_behind, vacuum_table
from queue_tables.upkeep.delta_rs import checkpoint_table, opened, trim_table
from tests.support.data.deletion_vectors import delete_before_the_guard
from tests.support.data.log_builder import LogBuilder
from tests.support.faults.foreign import as_of_earlier_release, take_guard_off


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    return QueueRoot.open(str(tmp_path / "root"))


def test_the_state_is_the_same_from_checkpoint_and_from_commits(root: QueueRoot) -> None:
    topics = TopicStore(root)
    for n in range(4):
        topics.create(f"t{n}")
    before = load_snapshot(root.store, "topics")
    version = checkpoint_table(root, "topics")
    assert version == before.version == 4
    names = root.store.names("topics/_delta_log")
    assert f"{version:020d}.checkpoint.parquet" in names
    assert sum(name.endswith(".json") for name in names) == version + 1
    for n in range(version + 1):
        root.store.delete(f"topics/_delta_log/{n:020d}.json")
    after = load_snapshot(root.store, "topics")
    assert (after.version, after.files, after.txns) == (
        before.version,
        before.files,
        before.txns,
    )
    topics.create("one-more")
    assert len(TopicStore(root).list()) == 5


def test_a_listing_that_has_missed_a_commit_is_no_damaged_log(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = TopicStore(root)
    for n in range(6):
        topics.create(f"t{n}")
    log = Path(root.uri, "topics/_delta_log")
    five, six = log / f"{5:020d}.json", log / f"{6:020d}.json"

    def looked(store: Store, table_path: str) -> list[Version]:
        for commit in (five, six):
            commit.rename(commit.with_suffix(".away"))
        versions = commit_versions(store, table_path)
        # Two commits come now, and the listing that delta-rs makes misses the first of them.
        six.with_suffix(".away").rename(six)
        return versions

    monkeypatch.setattr(upkeep, "commit_versions", looked)
    table = opened(root, "topics")
    assert table.version() == 4
    with pytest.raises(DeltaError, match="gap"):
        DeltaTable(f"{root.uri}/topics")
    five.with_suffix(".away").rename(five)
    monkeypatch.undo()
    assert opened(root, "topics").version() == 6


def test_delta_rs_reads_what_the_queue_committed(root: QueueRoot) -> None:
    topics = TopicStore(root)
    topics.create("orders", partitions=3)
    topics.delete("orders")
    checkpoint_table(root, "topics")
    topics.create("orders", partitions=5)
    table = DeltaTable(f"{root.uri}/topics")
    assert table.version() == TableLog(root.store, "topics").open().version
    rows = table.to_pyarrow_table().sort_by("version").to_pylist()
    assert [(row["partitions"], row["deleted"]) for row in rows] == [
        (3, False),
        (3, True),
        (5, False),
    ]


def test_a_table_that_is_not_there_is_named(root: QueueRoot) -> None:
    with pytest.raises(FileNotFoundError, match="inbox/none-1"):
        checkpoint_table(root, "inbox/none-1")


def test_trimming_leaves_the_newest_fold_and_its_positions(root: QueueRoot) -> None:
    fact = Fact(Kind.COMMITTED, "g", "orders", TopicId("t1"), Partition(0), 0, Epoch(1), Offset(5))
    states = fold({}, [fact])
    writer = GroupOffsetsWriter(root)
    writer.begin(Epoch(1))
    for stamp in range(8):
        writer.commit(states, {ShardName("c-1"): Stamp(stamp)})
    reader = GroupStateReader(root)
    trim_table(root, "group_offsets", keep_hours=0)
    assert sum(n.endswith(".parquet") for n in root.store.names("group_offsets")) == 1
    # Commits go when a checkpoint that is itself older than their retention stands for them.
    log = Path(root.uri) / "group_offsets" / "_delta_log"
    for path in log.iterdir():
        os.utime(path, (1_600_000_000, 1_600_000_000))
    trim_table(root, "group_offsets", keep_hours=0)
    assert sum(path.suffix == ".json" for path in log.iterdir()) <= 3
    assert read_group_offsets(root) == (states, {ShardName("c-1"): Stamp(7)})
    assert reader.read().states == states
    writer.commit(states, {ShardName("c-1"): Stamp(9)})
    assert read_group_offsets(root) == (states, {ShardName("c-1"): Stamp(9)})
    assert GroupOffsetsWriter(root).recorded_epoch == 1


def test_a_table_that_is_tailed_is_not_trimmed(root: QueueRoot) -> None:
    with pytest.raises(ValueError, match="is tailed"):
        trim_table(root, "log")


def test_what_a_deletion_vector_stands_in_is_not_vacuumed(root: QueueRoot) -> None:
    log = LogBuilder(root)
    topic = log.topic()
    log.append(topic, list("0123456789"))
    delete_before_the_guard(root.store, "log", [2, 3])
    root = QueueRoot.open(root.uri)
    assert left_behind(root, "log").unnamed == []
    assert vacuum_table(root, "log", 0, dry_run=False).files == 0
    rows = LogReader(root).read_range(topic.topic_id, Partition(0), Offset(0), 10)
    assert rows["offset"].to_pylist() == [0, 1, 4, 5, 6, 7, 8, 9]


def test_a_checkpoint_of_another_engine_is_skipped_for_one_from_before_the_guard(
    root: QueueRoot,
) -> None:
    topics = TopicStore(root)
    topics.create("orders")
    as_of_earlier_release(root.store, "topics")
    for version in range(checkpoint_table(root, "topics")):
        root.store.delete(commit_path("topics", version))
    running = TableLog(QueueRoot.open(root.uri).store, "topics").open()
    take_guard_off(root.store, "topics")
    running.refresh()
    info = CommitInfo(engine="Apache-Spark/4.2.0 Delta-Lake/4.4.0", operation="DELETE")
    gone = [add.removal(1) for add in running.files.values()]
    root.store.put_new(commit_path("topics", running.version + 1), encode([info, *gone]))
    checkpoint_table(root, "topics")  # as Spark makes one every ten commits
    running.refresh()
    assert len(running.files) == 1
    assert TableLog(root.store, "topics").open().files == running.files


def test_of_checkpoints_that_have_what_does_not_count_one_is_read(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = TopicStore(root)
    topics.create("orders")
    good = checkpoint_table(root, "topics")
    log = TableLog(root.store, "topics").open()
    info = CommitInfo(engine="delta-rs", operation="DELETE")
    gone = [add.removal(1) for add in log.files.values()]
    root.store.put_new(commit_path("topics", log.version + 1), encode([info, *gone]))
    log.refresh()
    for _ in range(5):
        newest = log.commit([])
        checkpoint_table(root, "topics")
    read = []
    get = root.store.get

    def noted(path: str) -> bytes:
        read.append(path)
        return get(path)

    monkeypatch.setattr(root.store, "get", noted)
    assert len(load_snapshot(root.store, "topics").files) == 1
    checkpoints = [path for path in read if "checkpoint" in path]
    assert checkpoints == [
        f"topics/_delta_log/{version:020d}.checkpoint.parquet" for version in (newest, good)
    ]
