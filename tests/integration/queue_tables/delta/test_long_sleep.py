"""A handle that slept past the clean-up of commits must not commit into the gap."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakequeue.errors import LeadershipLost, ShardSealed, TailLost
from lakequeue.records import Epoch, Stamp
from queue_tables.delta.actions import Txn
from queue_tables.delta.table import TableLog
from queue_tables.groups.state import GroupOffsetsWriter, read_group_offsets
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import ShardWriter, seal_shard
from queue_tables.topics import TopicStore
from queue_tables.upkeep.delta_rs import checkpoint_table
from tests.support.data.rows import inbox_rows


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    return QueueRoot.open(str(tmp_path / "root"))


def clean_up(root: QueueRoot, table_path: str) -> None:
    """Checkpoint the newest version, and remove all commits before it."""
    version = checkpoint_table(root, table_path)
    for n in range(version):
        root.store.delete(f"{table_path}/_delta_log/{n:020d}.json")


def test_a_commit_into_the_gap_is_refused_and_leaves_nothing(root: QueueRoot) -> None:
    asleep = TableLog(root.store, "topics").open()
    awake = TableLog(root.store, "topics").open()
    for n in range(1, 4):
        awake.commit([Txn("a", n)])
    clean_up(root, "topics")
    names = root.store.names("topics/_delta_log")
    with pytest.raises(TailLost, match="version 1 was committed and cleaned up") as lost:
        asleep.commit([Txn("b", 1)])
    assert lost.value.stored == "no"
    assert root.store.names("topics/_delta_log") == names
    assert (asleep.version, dict(asleep.txns)) == (3, {"a": 3})
    assert asleep.commit([Txn("b", 1)]) == 4


def test_a_commit_right_behind_a_clean_up_lands(root: QueueRoot) -> None:
    table = TableLog(root.store, "topics").open()
    table.commit([Txn("a", 1)])
    clean_up(root, "topics")
    assert table.commit([Txn("a", 2)]) == 2


def test_a_shard_that_was_sealed_and_cleaned_up_refuses_its_owner(root: QueueRoot) -> None:
    owner = ShardWriter.create(root, "inbox", "n")
    owner.append(inbox_rows([b"a"]), Stamp(1))
    seal_shard(root, "inbox", owner.name)
    TableLog(root.store, owner.path).open().commit([Txn("upkeep", 1)])
    clean_up(root, owner.path)
    with pytest.raises(ShardSealed):
        owner.append(inbox_rows([b"b"]), Stamp(2))
    assert len(TableLog(root.store, owner.path).open().files) == 1


def test_a_leader_of_the_past_commits_no_fold(root: QueueRoot) -> None:
    old, new = GroupOffsetsWriter(root), GroupOffsetsWriter(root)
    states, _ = old.begin(Epoch(1))
    new.begin(Epoch(2))
    new.commit({}, {})
    clean_up(root, "group_offsets")
    with pytest.raises(LeadershipLost):
        old.commit(states, {})
    new.commit({}, {})
    assert read_group_offsets(root) == ({}, {})


def test_a_topic_is_created_behind_the_gap(root: QueueRoot) -> None:
    asleep, awake = TopicStore(root), TopicStore(root)
    for n in range(3):
        awake.create(f"t{n}")
    clean_up(root, "topics")
    assert asleep.create("mine")[1]
    assert not asleep.create("t0")[1]
    assert len(TopicStore(root).list()) == 4
