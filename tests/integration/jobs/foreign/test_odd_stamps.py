"""A commit under a stamp that is none: its shard waits there and says so, and no other does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobs.folding.offsets_job import OffsetsJob
from jobs.maintenance.log_retention import oldest_unordered
from jobs.maintenance.shard_retention import retain_shards
from jobs.measuring.stuck_shards import stuck_shards
from jobs.rows.batch_file import BatchFile
from jobs.rows.key_projection import fact_rows
from jobs.source.leader_state import LeaderState
from jobs.source.shard_scanner import ShardScanner
from jobs.streaming.backlog_report import backlog_report
from lakequeue.records import Epoch, Partition, Stamp, TopicId, Version
from queue_tables.delta.actions import commit_path
from queue_tables.delta.tail import Tail
from queue_tables.groups.facts import Key
from queue_tables.groups.state import GroupStateReader, read_group_offsets, read_group_state
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import INBOX, JOURNAL
from queue_tables.shards.shards import ShardWriter, highest_stamp, seal_shard
from queue_tables.upkeep.repair import repair_table
from tests.support.data.foreign_shard import ForeignShard, records
from tests.support.data.hostile_rows import sound_rows
from tests.support.data.odd_stamps import ODD_STAMPS, restamp
from tests.support.data.order_truth import log_rows, reject_rows
from tests.support.data.topic_values import new_topic
from tests.support.runs.order_process import Orderer

BASE = 1_700_000_000_000_000
SOUND = Key("sound", TopicId("t1"), Partition(0))
YEAR_US = 365 * 86_400_000_000

odd_stamps = pytest.mark.parametrize("odd", ODD_STAMPS.values(), ids=ODD_STAMPS.keys())


@odd_stamps
def test_a_shard_waits_at_a_stamp_that_is_none_and_all_others_go_on(
    root: QueueRoot, odd: Any
) -> None:
    topic_id = new_topic(root)
    shard, other = ForeignShard(root), ForeignShard(root, "other")
    for n, value in enumerate([b"a", b"b", b"c"]):
        shard.commit(BASE + n, records(topic_id, BASE + n, [value]))
    restamp(root.store, shard.path, 2, odd)
    other.commit(BASE + 5, records(topic_id, BASE + 5, [b"other"]))
    for epoch in (1, 2):
        orderer = Orderer(root, epoch)
        for _ in range(4):
            orderer.drain()
        assert [r["value"] for r in log_rows(root)] == [b"a", b"other"]
        assert "commit 2 brings rows under the stamp" in orderer.scanner.stuck()[shard.name]
        assert list(orderer.scanner.stuck()) == [shard.name]
    assert "commit 2 brings rows under the stamp" in stuck_shards(root)[shard.name].why
    assert backlog_report(root, "inbox", BASE + 9)["records"] == 2
    assert oldest_unordered(root) == BASE + 1, "its ids are looked up in a window behind it"
    # Nothing of it is taken for done with, whatever the shard says of itself.
    seal_shard(root, "inbox", shard.name)
    assert retain_shards(root, "inbox", BASE + 50 * YEAR_US, dry_run=False).removed == []
    restamp(root.store, shard.path, 2, BASE + 1)
    for _ in range(2):
        orderer.drain()
    assert [r["value"] for r in log_rows(root)] == [b"a", b"other", b"b", b"c"]
    assert not orderer.scanner.stuck()
    assert not stuck_shards(root)
    assert reject_rows(root) == []


def test_what_comes_before_a_torn_commit_is_ordered_beside_other_shards(root: QueueRoot) -> None:
    topic_id = new_topic(root)
    shard, other = ForeignShard(root), ForeignShard(root, "other")
    for n, value in enumerate([b"a", b"b"]):
        shard.commit(BASE + n, records(topic_id, BASE + n, [value]))
    other.commit(BASE + 5, records(topic_id, BASE + 5, [b"other"]))
    path = commit_path(shard.path, 2)
    kept = bytes(root.store.get(path))
    root.store.delete(path)
    root.store.put(path, kept[: len(kept) // 2])
    orderer = Orderer(root, 1)
    for _ in range(4):
        orderer.drain()
    assert [r["value"] for r in log_rows(root)] == [b"a", b"other"]
    assert list(orderer.scanner.stuck()) == [shard.name]
    root.store.delete(path)
    root.store.put(path, kept)
    orderer.drain()
    assert [r["value"] for r in log_rows(root)] == [b"a", b"other", b"b"]


@odd_stamps
def test_the_facts_of_a_journal_under_a_stamp_that_is_none_count_for_nodes(
    tmp_path: Path, odd: Any
) -> None:
    root = QueueRoot.open(str(tmp_path / "root"))
    writer, other = (ShardWriter.create(root, "journal", node) for node in ("c", "d"))
    said = {"kind": "acked", "mode": "queue", "options": "{}", "group": "sound"}
    for n, (shard, at) in enumerate([(writer, 0), (writer, 5), (other, 10)]):
        rows = sound_rows(JOURNAL, 1, said | {"offset": at, "end_offset": at + 5})
        shard.append(rows.drop_columns(["hour", "stamp", "row"]), Stamp(BASE + n))
    commits = Tail(root.store, writer.path, Version(-1)).poll()
    restamp(root.store, writer.path, 2, odd)

    job = OffsetsJob(root)
    job.begin(Epoch(1))
    first = BatchFile(writer.name, commits[1].adds[0].path, Stamp(BASE - 1), Stamp(BASE))
    job.fold(pa.Table.from_batches(fact_rows(root.store, [first])))
    assert read_group_offsets(root)[1] == {writer.name: BASE}
    for group in (None, "sound"):
        assert read_group_state(root, group).states[SOUND].committed_offset == 15

    scanner = ShardScanner(root, "journal", 1 << 20)
    scanner.begin(LeaderState(Epoch(1), {writer.name: Stamp(BASE)}))
    ends = [scanner.next_end() for _ in range(4)]
    assert {writer.name: BASE, other.name: BASE + 2} in ends
    assert list(scanner.stuck()) == [writer.name]
    for shard in (writer, other):
        seal_shard(root, "journal", shard.name)
    assert writer.name not in retain_shards(root, "journal", BASE + YEAR_US, dry_run=False).removed
    assert read_group_state(root).states[SOUND].committed_offset == 15


@odd_stamps
def test_the_clock_of_a_node_follows_no_stamp_that_is_none(root: QueueRoot, odd: Any) -> None:
    topic_id = new_topic(root)
    shard = ForeignShard(root, "node")
    for n in range(2):
        shard.commit(BASE + n, records(topic_id, BASE + n, [b"a"]))
    restamp(root.store, shard.path, 2, odd)
    assert highest_stamp(root, "inbox", "node") == BASE


@pytest.mark.parametrize("own", [False, True], ids=["its mark says another", "the mark as well"])
@pytest.mark.parametrize("by", [-1, -50 * YEAR_US, 10**6, 100 * YEAR_US], ids=str)
def test_a_stamp_that_was_changed_hides_no_commit_behind_it(
    root: QueueRoot, by: int, own: bool
) -> None:
    """Below the year 2200, and not the one that it had."""
    topic_id = new_topic(root)
    shard = ForeignShard(root)
    for n, value in enumerate([b"a", b"b", b"c"]):
        shard.commit(BASE + n, records(topic_id, BASE + n, [value]))
    restamp(root.store, shard.path, 2, BASE + 1 + by, mark_too=own)
    for epoch in (1, 2):
        orderer = Orderer(root, epoch)
        for _ in range(4):
            orderer.drain()
    values = [r["value"] for r in log_rows(root)]
    rises = own and by > 0
    # A stamp that rises may be one. Rows that have another are put aside; what comes behind waits.
    assert values == [b"a"]
    aside = [(b"b", BASE + 1 + by)] if rises else []
    assert [(r["value"], r["stamp"]) for r in reject_rows(root)] == aside
    assert f"commit {3 if rises else 2} brings" in orderer.scanner.stuck()[shard.name]
    stuck = stuck_shards(root)[shard.name]
    assert "brings rows under the stamp" in stuck.why
    assert "lakequeue repair" in stuck.remedy
    assert oldest_unordered(root) > BASE
    seal_shard(root, "inbox", shard.name)
    assert retain_shards(root, "inbox", BASE + 500 * YEAR_US, dry_run=False).removed == []
    report = repair_table(root, shard.path, INBOX, execute=True)
    orderer.drain()
    orderer.drain()
    left = [r["value"] for r in log_rows(root)]
    if rises:
        assert "restore it from a backup" in report.lost[0]
        assert left == [b"a"]
    else:
        assert report.lost == []
        assert left == [b"a", b"b", b"c"]
        assert not stuck_shards(root)
    assert len(reject_rows(root)) == len(aside)


def test_facts_under_a_stamp_that_does_not_rise_count_while_the_fold_waits(
    tmp_path: Path,
) -> None:
    root = QueueRoot.open(str(tmp_path / "root"))
    writer = ShardWriter.create(root, "journal", "c")
    said = {"kind": "acked", "mode": "queue", "options": "{}", "group": "sound"}
    for n, at in enumerate([0, 5]):
        rows = sound_rows(JOURNAL, 1, said | {"offset": at, "end_offset": at + 5})
        writer.append(rows.drop_columns(["hour", "stamp", "row"]), Stamp(BASE + n))
    restamp(root.store, writer.path, 2, BASE - 9, mark_too=True)
    running = GroupStateReader(root)
    assert running.read().states[SOUND].committed_offset == 10
    job = OffsetsJob(root)
    job.begin(Epoch(1))
    [first, _] = Tail(root.store, writer.path, Version(0)).poll()
    file = BatchFile(writer.name, first.adds[0].path, Stamp(BASE - 1), Stamp(BASE))
    job.fold(pa.Table.from_batches(fact_rows(root.store, [file])))
    for _ in range(2):
        assert running.read().states[SOUND].committed_offset == 10
        assert read_group_state(root).states[SOUND].committed_offset == 10
    assert list(stuck_shards(root, "journal")) == [writer.name]
