"""Commits of a table that other engines have changed go as well: what counts is written down."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from queue_tables.delta.actions import CommitInfo, commit_path, encode
from queue_tables.delta.counting import counted_versions
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import commit_versions
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import TOPICS
from queue_tables.topics import TopicStore
from queue_tables.upkeep.clean_up import clean_commits
from queue_tables.upkeep.delta_rs import checkpoint_table
from queue_tables.upkeep.health import look
from queue_tables.upkeep.repair import repair_table
from tests.support.faults.foreign import take_guard_off

LATER_MS = 1 << 60


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    return QueueRoot.open(str(tmp_path / "queue"))


def deleted_by_another(root: QueueRoot) -> None:
    """Three topics, of which another engine takes the files of all."""
    topics = TopicStore(root)
    for name in ("a", "b", "c"):
        topics.create(name)
    take_guard_off(root.store, "topics")
    log = TableLog(root.store, "topics").open()
    info = CommitInfo(engine="Apache-Spark/4.2.0 Delta-Lake/4.4.0", operation="DELETE")
    gone = [add.removal(1) for add in log.files.values()]
    root.store.put_new(commit_path("topics", log.version + 1), encode([info, *gone]))


def names(root: QueueRoot) -> list[str]:
    topics = TopicStore(root)
    topics.refresh()
    return sorted(topic.topic for topic in topics.list())


def test_commits_are_bounded_before_a_repair_and_what_counts_stays(root: QueueRoot) -> None:
    deleted_by_another(root)
    before = load_snapshot(root.store, "topics").files
    for round_ in range(3):
        for _ in range(20):
            TableLog(root.store, "topics").open().commit([], {"round": round_})
        checkpoint_table(root, "topics")
        assert clean_commits(root, "topics", LATER_MS) > 0
        assert len(commit_versions(root.store, "topics")) <= 2
        assert len(counted_versions(root.store, "topics")) == 1
    now = TableLog(root.store, "topics").open()
    assert now.files == before
    assert not now.is_settled
    assert names(root) == ["a", "b", "c"]
    [trouble] = look(root)
    assert "commits of other engines up to version" in str(trouble), "the doctor still says it"
    assert DeltaTable(f"{root.uri}/topics").to_pyarrow_table().num_rows == 0, "as it sees it"


def test_a_repair_brings_back_what_counts(root: QueueRoot) -> None:
    deleted_by_another(root)
    checkpoint_table(root, "topics")
    TableLog(root.store, "topics").open().commit([])
    assert clean_commits(root, "topics", LATER_MS) > 0
    report = repair_table(root, "topics", TOPICS, execute=True)
    assert report.done
    assert report.lost == []
    assert DeltaTable(f"{root.uri}/topics").to_pyarrow_table().num_rows == 3
    assert look(root) == []
    checkpoint_table(root, "topics")
    TableLog(root.store, "topics").open().commit([])
    clean_commits(root, "topics", LATER_MS)
    assert counted_versions(root.store, "topics") == set(), "it is not needed any more"
    assert names(root) == ["a", "b", "c"]


def test_a_newer_checkpoint_of_another_engine_changes_nothing(root: QueueRoot) -> None:
    deleted_by_another(root)
    checkpoint_table(root, "topics")
    clean_commits(root, "topics", LATER_MS)
    for _ in range(3):
        TableLog(root.store, "topics").open().commit([])
        checkpoint_table(root, "topics")
    assert names(root) == ["a", "b", "c"]
    handle = TableLog(root.store, "topics").open()
    assert handle.version == load_snapshot(root.store, "topics", every_engine=True).version
    assert len(load_snapshot(root.store, "topics", every_engine=True).files) == 0


def test_one_that_is_torn_stands_for_nothing(root: QueueRoot) -> None:
    deleted_by_another(root)
    version = checkpoint_table(root, "topics")
    path = Path(root.uri, "topics", "_delta_log", "_lakequeue", f"counts-{version}.json")
    path.parent.mkdir()
    path.write_bytes(b'{"commitInfo": {"lakeq')
    assert names(root) == ["a", "b", "c"], "the commits still tell"
