"""A commit of a shard that cannot be read: nothing is lost, all others go on, a repair mends it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from jobs.folding.offsets_job import OffsetsJob
from jobs.maintenance.log_retention import oldest_unordered
from jobs.maintenance.shard_retention import retain_shards
from jobs.measuring.order_health import look_at_order
from jobs.rows.batch_file import BatchFile
from jobs.rows.key_projection import fact_rows
from jobs.source.leader_state import LeaderState
from jobs.source.shard_scanner import ShardScanner
from jobs.streaming.backlog_report import backlog_report
from lakequeue.errors import CommitConflict, ShardSealed
from lakequeue.records import Epoch, Partition, Stamp, TopicId, Version
from queue_tables.delta.actions import commit_path
from queue_tables.delta.store import Store
from queue_tables.delta.tail import Tail
from queue_tables.groups.facts import Key
from queue_tables.groups.state import GroupStateReader, read_group_offsets, read_group_state
from queue_tables.root import QueueRoot, ShardKind
from queue_tables.schema.schemas import JOURNAL, TABLES
from queue_tables.shards.shards import ShardWriter, fence_shard, highest_stamp, is_sealed
from queue_tables.upkeep.health import TablesWatch, look
from queue_tables.upkeep.repair import repair_table
from tests.support.data.foreign_shard import ForeignShard, records
from tests.support.data.hostile_rows import sound_rows
from tests.support.data.order_truth import log_rows, reject_rows
from tests.support.data.topic_values import new_topic
from tests.support.runs.order_process import Orderer

BASE = 1_700_000_000_000_000
SOUND = Key("sound", TopicId("t1"), Partition(0))

TEARS: dict[str, Callable[[bytes], bytes]] = {
    "half": lambda data: data[: len(data) // 2],
    "empty": lambda _: b"",
    "zeroes": lambda data: b"\0" * len(data),
    "not JSON": lambda _: b"hello\n",
    "a mark that is none": lambda data: data.replace(b'"version":', b'"version":-'),
    "a path out of the table": lambda data: data.replace(b'"path":"', b'"path":"../'),
}
torn = pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS.keys())


def tear_commit(store: Store, path: str, version: int, tear: Callable[[bytes], bytes]) -> None:
    name = commit_path(path, version)
    kept = bytes(store.get(name))
    store.delete(name)
    store.put(name, tear(kept))


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    return QueueRoot.open(str(tmp_path / "root"))


def acked(shard: ShardWriter, at: int, stamp: int) -> None:
    """Five records from `at` on."""
    said = {"kind": "acked", "mode": "queue", "options": "{}", "group": "sound"}
    rows = sound_rows(JOURNAL, 1, said | {"offset": at, "end_offset": at + 5})
    shard.append(rows.drop_columns(["hour", "stamp", "row"]), Stamp(stamp))


def consumed(root: QueueRoot) -> int | None:
    found = {read_group_state(root, g).states[SOUND].committed_offset for g in (None, "sound")}
    [offset] = found
    return offset


@torn
@pytest.mark.parametrize("last", [True, False], ids=["the newest", "in the middle"])
def test_of_a_journal_every_fact_counts_and_no_group_waits(
    root: QueueRoot, tear: Callable[[bytes], bytes], last: bool
) -> None:
    mine, other = (ShardWriter.create(root, "journal", node) for node in ("c", "d"))
    acked(mine, 0, BASE)
    acked(mine, 5, BASE + 1)
    if not last:
        acked(mine, 10, BASE + 2)
    acked(other, 15 if not last else 10, BASE + 3)
    end = 15 if last else 20
    running = GroupStateReader(root)
    assert running.read().states[SOUND].committed_offset == end
    tear_commit(root.store, mine.path, 2, tear)

    # Whoever reads anew, and whoever has read before.
    assert consumed(root) == end
    assert running.read().states[SOUND].committed_offset == end
    assert any("cannot be read" in t.what for t in TablesWatch(root).troubles())
    # A taker shuts the owner out.
    fence = ("sound", "t1", 0, 9)
    assert fence_shard(root, mine.name, [fence])
    assert any(f[1:] == (*SOUND, 9) for f in read_group_state(root).fences)
    with pytest.raises(CommitConflict) as refused:
        acked(mine, 40, BASE + 9)
    assert refused.value.stored == "no"
    assert highest_stamp(root, "journal", "c") == (BASE if last else BASE + 2)
    ShardWriter.create(root, "journal", "c")

    # The other shard is folded; this one waits, and stays.
    scanner = ShardScanner(root, "journal", 1 << 20)
    scanner.begin(LeaderState(Epoch(1), {}))
    ends = [scanner.next_end() for _ in range(4)]
    assert {mine.name: BASE, other.name: BASE + 3} in ends
    assert list(scanner.stuck()) == [mine.name]
    assert backlog_report(root, "journal", BASE + 9)["commits"] == (2 if last else 3)
    assert retain_shards(root, "journal", BASE << 1, dry_run=False).removed == []

    [said] = [s for s in look_at_order(root.uri) if s.warns]
    assert said.detail.startswith(f"journal/{mine.name} waits: commit 2 cannot be read")
    assert "lakequeue repair" in said.fix
    [trouble] = look(root)
    assert not trouble.stops
    report = repair_table(root, mine.path, JOURNAL, execute=False)
    assert any("write commit 2 anew" in step for step in report.steps), report
    assert report.lost == []
    assert repair_table(root, mine.path, JOURNAL, execute=True).done
    assert repair_table(root, mine.path, JOURNAL, execute=True).steps == []
    assert look(root) == []
    assert is_sealed(root, "journal", mine.name)
    assert TablesWatch(root).troubles() == []

    assert running.read().states[SOUND].committed_offset == end
    assert consumed(root) == end
    _fold_all(root)
    states, folded = read_group_offsets(root)
    assert states[SOUND].committed_offset == end
    assert folded[mine.name] == (BASE + 1 if last else BASE + 2)
    assert running.read().states[SOUND].committed_offset == end


def _fold_all(root: QueueRoot) -> None:
    job = OffsetsJob(root)
    job.begin(Epoch(3))
    for shard in root.shards("journal"):
        path = f"journal/{shard}"
        after = Stamp(0)
        for commit in Tail(root.store, path, Version(-1)).poll():
            for add in commit.adds:
                stamp = Stamp(commit.info["stamp"])
                one = BatchFile(shard, add.path, after, stamp)
                job.fold(pa.Table.from_batches(fact_rows(root.store, [one])))
                after = stamp


@torn
@pytest.mark.parametrize("last", [True, False], ids=["the newest", "in the middle"])
def test_of_an_inbox_every_record_is_ordered_after_a_repair(
    root: QueueRoot, tear: Callable[[bytes], bytes], last: bool
) -> None:
    topic_id = new_topic(root)
    shard, other = ForeignShard(root), ForeignShard(root, "other")
    values = [b"a", b"b"] if last else [b"a", b"b", b"c"]
    for n, value in enumerate(values):
        shard.commit(BASE + n, records(topic_id, BASE + n, [value]))
    other.commit(BASE + 5, records(topic_id, BASE + 5, [b"other"]))
    tear_commit(root.store, shard.path, 2, tear)
    for epoch in (1, 2):
        orderer = Orderer(root, epoch)
        for _ in range(4):
            orderer.drain()
        assert [r["value"] for r in log_rows(root)] == [b"a", b"other"]
        assert list(orderer.scanner.stuck()) == [shard.name]
    assert oldest_unordered(root) == BASE + 1
    assert retain_shards(root, "inbox", BASE << 1, dry_run=False).removed == []
    owner = ShardWriter.create(root, "inbox", "foreign")
    assert owner.name != shard.name
    [said] = [s for s in look_at_order(root.uri) if s.warns]
    assert said.detail.startswith(f"inbox/{shard.name} waits: commit 2 cannot be read")
    assert f"lakequeue repair --table {shard.path}" in said.fix

    assert repair_table(root, shard.path, TABLES["inbox"], execute=True).lost == []
    assert look(root) == []
    for _ in range(3):
        orderer.drain()
    assert [r["value"] for r in log_rows(root)] == [b"a", b"other", *values[1:]]
    assert not orderer.scanner.stuck()
    assert reject_rows(root) == []


def test_what_two_files_may_have_been_is_not_guessed(root: QueueRoot) -> None:
    topic_id = new_topic(root)
    shard = ForeignShard(root)
    shard.commit(BASE, records(topic_id, BASE, [b"a"]))
    file = shard.file_of(shard.commit(BASE + 1, records(topic_id, BASE + 1, [b"b"])))
    root.store.put(file.replace("part-", "part-0"), root.store.get(file))
    tear_commit(root.store, shard.path, 2, TEARS["half"])
    report = repair_table(root, shard.path, TABLES["inbox"], execute=True)
    assert "restore it from a backup" in report.lost[0]
    assert "commit 2 cannot be read" in look(root)[0].what


@pytest.mark.parametrize("kind", ["inbox", "journal"])
def test_an_owner_that_meets_one_goes_on_in_a_shard_of_its_own(
    root: QueueRoot, kind: ShardKind
) -> None:
    shard = ShardWriter.create(root, kind, "n")
    rows = sound_rows(TABLES[kind], 1).drop_columns(["hour", "stamp", "row"])
    shard.append(rows, Stamp(BASE))
    root.store.put_new(commit_path(shard.path, 2), b'{"add":')
    for _ in range(2):
        with pytest.raises(ShardSealed, match="commit 2 cannot be read") as refused:
            shard.append(rows, Stamp(BASE + 1))
        assert refused.value.stored == "no"
    assert highest_stamp(root, kind, "n") == BASE
    ShardWriter.create(root, kind, "n").append(rows, Stamp(BASE + 1))
    report = repair_table(root, shard.path, TABLES[kind], execute=True)
    assert any("no rows of it are there" in step for step in report.steps)
    assert look(root) == []
    with pytest.raises(ShardSealed):
        shard.append(rows, Stamp(BASE + 2))
