"""Maintenance commits beside each other, and beside the owner of a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakequeue.errors import CommitConflict
from lakequeue.records import Stamp
from queue_tables.delta.actions import Txn
from queue_tables.delta.maintenance import rewrite_files
from queue_tables.delta.table import TableLog
from queue_tables.root import QueueRoot
from queue_tables.shards.shard_removal import remove_shard
from queue_tables.shards.shards import ShardWriter, seal_shard
from tests.support.data.log_builder import LogBuilder
from tests.support.data.rows import inbox_rows


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    return QueueRoot.open(str(tmp_path))


def two_files(root: QueueRoot) -> TableLog:
    log = LogBuilder(root)
    topic = log.topic("orders")
    log.append(topic, ["a"])
    log.append(topic, ["b"])
    return TableLog(root.store, "log").open()


def test_a_stale_plan_is_refused_and_changes_nothing(root: QueueRoot) -> None:
    slow, quick = two_files(root), TableLog(root.store, "log").open()
    first, second = quick.files.values()
    rewrite_files(quick, [first], (), {"retention": True}, data_change=True)
    with pytest.raises(CommitConflict, match="1 of 2 files have left the table") as refused:
        rewrite_files(slow, [first, second], (), {"retention": True}, data_change=True)
    assert refused.value.stored == "no"
    newest = TableLog(root.store, "log").open()
    assert list(newest.files) == [second.path]
    assert newest.version == quick.version


def test_an_append_in_between_is_gone_on_from(root: QueueRoot) -> None:
    slow, leader = two_files(root), TableLog(root.store, "log").open()
    (first, second) = leader.files.values()
    leader.commit([Txn("order", 9)])
    assert rewrite_files(slow, [first], (), {}, data_change=True) == leader.version + 1
    newest = TableLog(root.store, "log").open()
    assert (list(newest.files), newest.txns["order"]) == ([second.path], 9)


def test_a_shard_that_another_run_has_removed_is_a_stale_plan(root: QueueRoot) -> None:
    owner = ShardWriter.create(root, "inbox", "n")
    owner.append(inbox_rows([b"1"]), Stamp(1))
    seal_shard(root, "inbox", owner.name)
    slow = TableLog(root.store, owner.path).open()
    remove_shard(root, "inbox", owner.name)
    with pytest.raises(CommitConflict, match="removed"):
        rewrite_files(slow, list(slow.files.values()), (), {}, data_change=True)
    assert root.shards("inbox") == []
    assert root.store.names(f"{owner.path}/_delta_log") == []
