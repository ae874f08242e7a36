"""Rows that are ordered or folded leave their shards, and shards that are done with go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobs.maintenance import shard_retention
from lakequeue.clock import wall_micros
from lakequeue.errors import ShardSealed
from lakequeue.records import ShardName, Stamp
from queue_tables.groups.state import read_group_state
from queue_tables.root import QueueRoot, ShardKind
from queue_tables.shards.shard_removal import remove_shard
from queue_tables.shards.shards import ShardWriter, seal_shard
from tests.support.data.maintained import NOW, a_topic, committed
from tests.support.data.order_truth import Inbox, rows_in
from tests.support.data.rows import inbox_rows
from tests.support.data.wall import HOUR, Wall
from tests.support.runs.fold_process import Folder
from tests.support.runs.maintenance_process import run_retention
from tests.support.runs.order_process import Orderer


@pytest.fixture
def time() -> Wall:
    return Wall(NOW - 48 * HOUR)


def inbox_files(root: QueueRoot, kind: ShardKind, shard: ShardName) -> list[str]:
    return sorted(p.name for p in Path(root.uri, kind, shard).glob("hour=*/*.parquet"))


def test_ordered_rows_leave_a_live_inbox_shard_and_its_owner_goes_on(root: QueueRoot) -> None:
    topic = a_topic(root, retention_ms=None)
    inbox = Inbox(root, "n")
    inbox.commit(NOW, [{"topic_id": topic.topic_id, "value": b"0"}])
    inbox.commit(NOW + 1, [{"topic_id": topic.topic_id, "value": b"1"}])
    Orderer(root, 1).drain()
    inbox.commit(NOW + 2, [{"topic_id": topic.topic_id, "value": b"2"}])
    later = wall_micros() + HOUR
    assert run_retention(root, wall_micros())["inbox"]["files_removed"] == 0, "too young"
    report = run_retention(root, later)["inbox"]
    assert (report["files_removed"], report["shards_removed"]) == (2, [])
    assert len(inbox_files(root, "inbox", inbox.name)) == 1
    inbox.commit(NOW + 3, [{"topic_id": topic.topic_id, "value": b"3"}])
    Orderer(root, 2).drain()
    run_retention(root, later)
    assert inbox_files(root, "inbox", inbox.name) == []
    assert [row["value"] for row in rows_in(root, "log")] == [b"0", b"1", b"2", b"3"]


def test_a_gone_nodes_shard_is_removed_and_an_owner_that_wakes_up_loses_nothing(
    root: QueueRoot,
) -> None:
    topic = a_topic(root, retention_ms=None)
    owner = ShardWriter.create(root, "inbox", "n")
    owner.append(inbox_rows([b"1"], topic.topic_id), Stamp(NOW))
    old = Orderer(root, 1)
    old.drain()
    later = wall_micros() + 2 * HOUR
    assert run_retention(root, later)["inbox"]["shards_removed"] == []
    seal_shard(root, "inbox", owner.name)
    assert run_retention(root, later)["inbox"]["shards_removed"] == [owner.name]
    assert root.shards("inbox") == []
    assert not Path(root.uri, owner.path).exists()
    with pytest.raises(ShardSealed, match="removed") as refused:
        owner.append(inbox_rows([b"2"], topic.topic_id), Stamp(NOW + 1))
    assert refused.value.stored == "no"
    assert old.drain() == []
    assert root.shards("inbox") == []
    again = ShardWriter.create(root, "inbox", "n")
    again.append(inbox_rows([b"2"], topic.topic_id), Stamp(NOW + 2))
    old.drain()
    assert [row["value"] for row in rows_in(root, "log")] == [b"1", b"2"]
    assert Orderer(root, 2).drain() == []


def test_a_shard_that_another_run_removes_under_way_is_skipped(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = ShardWriter.create(root, "inbox", "n")
    owner.append(inbox_rows([b"1"]), Stamp(NOW))
    Orderer(root, 1).drain()
    seal_shard(root, "inbox", owner.name)

    def quicker(*_: Any) -> list[ShardName]:
        remove_shard(root, "inbox", owner.name)
        return []

    monkeypatch.setattr(shard_retention, "removable", quicker)
    report = run_retention(root, wall_micros() + HOUR)["inbox"]
    assert (report["files_removed"], report["shards_removed"]) == (0, [])
    assert root.shards("inbox") == []


def test_a_shard_that_is_not_ordered_to_its_end_stays_however_old(root: QueueRoot) -> None:
    owner = ShardWriter.create(root, "inbox", "n")
    owner.append(inbox_rows([b"1"]), Stamp(NOW - 9_000 * HOUR))
    seal_shard(root, "inbox", owner.name)
    report = run_retention(root, NOW + 9_000 * HOUR)["inbox"]
    assert (report["files_removed"], report["shards_removed"]) == (0, [])
    assert len(rows_in(root, owner.path)) == 1


def test_a_journal_shard_goes_when_it_is_folded_and_no_state_names_it(root: QueueRoot) -> None:
    topic = a_topic(root, retention_ms=None)
    taken = committed(root, topic, "g", None)
    position = committed(root, topic, "g", 7)
    for writer in (taken, position):
        seal_shard(root, "journal", writer.name)
    later = wall_micros() + 2 * HOUR
    assert run_retention(root, later)["journal"]["shards_removed"] == []
    folder = Folder(root, 1)
    folder.drain()
    before = read_group_state(root).states
    report = run_retention(root, later)["journal"]
    assert report["shards_removed"] == [position.name], "a taker would fence the other"
    folder.job.upkeep(set())
    committed(root, topic, "g", 8)
    folder.drain()
    assert run_retention(root, later)["journal"]["shards_removed"] == [taken.name]
    (state,) = read_group_state(root).states.values()
    assert (state.committed_offset, state.epoch) == (8, before[state.key].epoch)
