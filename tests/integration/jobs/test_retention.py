"""The retention job on real tables, with readers, a leader and owners beside it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable

from jobs import shard_retention
from jobs.order_state import ORDER_TXN, order_number
from jobs.rejects import commit_fenced
from lakequeue.clock import hour_of, wall_micros
from lakequeue.errors import OffsetOutOfRange, ShardSealed
from lakequeue.records import Epoch, Offset, Partition, ShardName, Stamp, TopicId
from queue_tables.delta_log import Add, Txn
from queue_tables.fact_rows import to_arrow
from queue_tables.facts import Fact, Kind
from queue_tables.group_state import read_group_state
from queue_tables.log_reader import LogReader
from queue_tables.maintenance import rewrite_files
from queue_tables.root import QueueRoot, ShardKind
from queue_tables.shard_removal import remove_shard
from queue_tables.shards import ShardWriter, seal_shard
from queue_tables.table import TableLog
from queue_tables.tail import Tail
from queue_tables.topic_rules import Topic
from queue_tables.topics import TopicStore
from tests.support.fold_process import Folder
from tests.support.log_builder import LogBuilder
from tests.support.order_process import Orderer
from tests.support.order_truth import Inbox, judge, rows_in
from tests.support.retention_process import run_retention
from tests.support.rows import inbox_rows

HOUR = 3_600 * 1_000_000
NOW = wall_micros()
DAY_MS = 86_400_000


class Time:
    """The wall clock of a test."""

    now = NOW - 48 * HOUR

    def __call__(self) -> int:
        self.now += 1
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def log(root: QueueRoot, time: Time) -> LogBuilder:
    return LogBuilder(root, wall=time)


def a_topic(root: QueueRoot, name: str = "orders", **config: Any) -> Topic:
    return TopicStore(root).create(name, **({"partitions": 1, "retention_ms": DAY_MS} | config))[0]


def fill(log: LogBuilder, time: Time, topic: Topic, hours: int = 4, per_hour: int = 3) -> None:
    """`hours` hours of records, each 11 h after the one before, the last one is now."""
    for n in range(hours):
        time.now = NOW - (hours - 1 - n) * 11 * HOUR
        log.append(topic, [f"{n}-{i}" for i in range(per_hour)])


def committed(
    root: QueueRoot, topic: Topic, group: str, offset: int | None, at: int = NOW
) -> ShardWriter:
    """A fact in a journal: the group's position, or (None) that it has taken the partition."""
    writer = ShardWriter.create(root, "journal", "c")
    kind = Kind.TAKEN if offset is None else Kind.COMMITTED
    fact = Fact(
        kind,
        group,
        topic.topic,
        topic.topic_id,
        Partition(0),
        0,
        Epoch(1),
        None if offset is None else Offset(offset),
        at=at,
    )
    writer.append(to_arrow([fact]), Stamp(NOW))
    return writer


def first(root: QueueRoot, topic: Topic) -> int:
    return LogReader(root).first_offset(topic.topic_id, Partition(0))


def test_old_files_leave_the_log_and_every_engine_and_reader_sees_the_same(
    root: QueueRoot, log: LogBuilder, time: Time
) -> None:
    topic, other = a_topic(root), a_topic(root, "kept", retention_ms=None)
    fill(log, time, topic)
    fill(log, time, other)
    live, tail = (
        LogReader(root),
        Tail(root.store, "log", TableLog(root.store, "log").open().version),
    )
    dry = run_retention(root, NOW, dry_run=True)["log"]
    assert first(root, topic) == 0
    report = run_retention(root, NOW)["log"]
    assert report["topics"]["orders"] == {
        "topic_id": topic.topic_id,
        "rows_removed": 3,
        "first_offsets": {"0": 3},
        "files_kept": {},
        "kept_for_groups": [],
    }
    assert dry | {"version": report["version"]} == report
    (commit,) = tail.poll()
    assert not commit.appends
    live.refresh()
    with pytest.raises(OffsetOutOfRange) as refused:
        live.read_range(topic.topic_id, Partition(0), Offset(2), 10)
    assert refused.value.extra["first_offset"] == 3
    for reader in (live, LogReader(root)):
        rows = reader.read_range(topic.topic_id, Partition(0), Offset(3), 100)
        assert rows["offset"].to_pylist() == list(range(3, 12))
        kept = reader.read_range(other.topic_id, Partition(0), Offset(0), 100)
        assert kept.num_rows == 12
    table = DeltaTable(f"{root.uri}/log")
    by_delta_rs = table.to_pyarrow_table().select(["topic", "offset"]).to_pylist()
    arrow = table.to_pyarrow_dataset()
    duck = duckdb.connect().register("log", arrow)
    by_duckdb = duck.execute('SELECT topic, "offset" FROM log').fetchall()
    ours = sorted((r["topic"], r["offset"]) for r in rows_in(root, "log"))
    assert sorted((r["topic"], r["offset"]) for r in by_delta_rs) == ours
    assert sorted(by_duckdb) == ours
    assert len(ours) == 21
    assert arrow.count_rows() == 21
    assert run_retention(root, NOW)["log"]["files_removed"] == 0


def test_size_removes_the_oldest_of_closed_hours(
    root: QueueRoot, log: LogBuilder, time: Time
) -> None:
    topic = a_topic(root, retention_ms=None, retention_bytes=1)
    fill(log, time, topic)
    assert run_retention(root, NOW)["log"]["files_removed"] == 3
    assert first(root, topic) == 9


def test_what_a_live_group_has_not_consumed_stays_until_it_has(
    root: QueueRoot, log: LogBuilder, time: Time
) -> None:
    topic = a_topic(root)
    fill(log, time, topic, hours=6)
    writer = committed(root, topic, "billing", 4)
    report = run_retention(root, NOW)["log"]["topics"]["orders"]
    assert (report["rows_removed"], report["kept_for_groups"]) == (3, ["billing"])
    assert report["files_kept"] == {"unconsumed": 2}
    assert first(root, topic) == 3
    committed(root, topic, "other", None)
    committed(root, topic, "billing", 12)
    assert run_retention(root, NOW)["log"]["files_removed"] == 0, "the other group needs it"
    TopicStore(root).alter("orders", expire_unconsumed=True)
    assert run_retention(root, NOW)["log"]["files_removed"] == 2
    assert first(root, topic) == 9
    assert writer.name in read_group_state(root).shards


def test_a_group_that_nothing_was_heard_of_for_long_holds_nothing_if_so_asked(
    root: QueueRoot, log: LogBuilder, time: Time
) -> None:
    topic = a_topic(root)
    fill(log, time, topic, hours=5)
    committed(root, topic, "forgotten", 0, at=NOW - 40 * 24 * HOUR)
    assert run_retention(root, NOW)["log"]["files_removed"] == 0
    assert run_retention(root, NOW, forget_groups_days=41)["log"]["files_removed"] == 0
    committed(root, topic, "live", 3)
    assert run_retention(root, NOW, forget_groups_days=30)["log"]["files_removed"] == 1
    assert first(root, topic) == 3


def test_records_of_a_deleted_topic_go(root: QueueRoot, log: LogBuilder, time: Time) -> None:
    topic = a_topic(root, retention_ms=None)
    time.now = NOW - 3 * HOUR
    log.append(topic, ["a"])
    TopicStore(root).delete("orders")
    again = a_topic(root, retention_ms=None)
    log.append(again, ["b"])
    report = run_retention(root, NOW)["log"]
    assert report["topics"][f"deleted {topic.topic_id}"]["rows_removed"] == 1
    assert [row["value"] for row in rows_in(root, "log")] == [b"b"]


def test_a_copy_that_waits_to_be_ordered_still_finds_its_original(
    root: QueueRoot, time: Time
) -> None:
    """Dedup goes by stamps: an old row that is not ordered keeps the ids of its window."""
    topic = a_topic(root, dedup_window_ms=3_600_000)
    record = {"topic_id": topic.topic_id, "value": b"v", "message_id": "m"}
    first_node, second_node = Inbox(root, "a"), Inbox(root, "b")
    first_node.commit(time.now, [record])
    Orderer(root, 1, wall=time).drain()
    second_node.commit(time.now + 1_000, [record])
    assert run_retention(root, NOW)["log"]["topics"]["orders"]["files_kept"] == {"dedup_window": 1}
    # Another process, with nothing in memory.
    assert Orderer(root, 2, wall=time).drain() == [{"rows": 1, "ordered": 0, "duplicates": 1}]
    assert run_retention(root, NOW)["log"]["files_removed"] == 1
    assert rows_in(root, "log") == []


def test_a_leader_that_commits_all_the_time_and_retention_lose_nothing(
    root: QueueRoot, log: LogBuilder, time: Time
) -> None:
    """Appends and removals land one after the other, at versions of their own."""
    topic = a_topic(root)
    for n in range(40):
        time.now = NOW - 40 * HOUR
        log.append(topic, [f"old-{n}"])
    leader = TableLog(root.store, "log", keep_files=False).open()
    begun, stop = threading.Event(), threading.Event()
    errors: list[BaseException] = []
    counter = 0

    def lead() -> None:
        nonlocal counter
        try:
            while not stop.is_set() or counter < 20:
                counter += 1
                commit_fenced(
                    leader, [Txn(ORDER_TXN, order_number(1, 100 + counter))], {}, Epoch(1)
                )
                begun.set()
        except BaseException as error:  # noqa: BLE001 -- told by the test
            errors.append(error)

    thread = threading.Thread(target=lead)
    thread.start()
    begun.wait(10)
    table = TableLog(root.store, "log").open()
    old = sorted(table.files.values(), key=lambda add: str(add.stats))
    before = table.version

    def remove_one(add: Add) -> None:
        rewrite_files(table, [add], (), {"retention": True}, data_change=True)

    for add in old:
        remove_one(add)
    stop.set()
    thread.join()
    assert errors == []
    newest = TableLog(root.store, "log").open()
    assert newest.files == {}
    assert newest.txns[ORDER_TXN] == order_number(1, 100 + counter)
    assert newest.version >= before + len(old)


def test_old_rejects_go_unless_a_batch_is_half_done(root: QueueRoot, time: Time) -> None:
    topic = a_topic(root, retention_ms=None)
    record = {"topic_id": topic.topic_id, "value": b"v", "message_id": "m"}
    inbox = Inbox(root, "a")
    time.now = NOW - 9 * 24 * HOUR
    inbox.commit(time.now, [record])
    inbox.commit(time.now + 1, [record])
    Orderer(root, 1, wall=time).drain()
    assert len(rows_in(root, "rejects")) == 1
    rejects = TableLog(root.store, "rejects").open()
    rejects.commit([Txn(f"plan/{inbox.name}", time.now + 50)])
    assert run_retention(root, NOW)["rejects"]["files_removed"] == 0
    rejects.commit([Txn(f"plan/{inbox.name}", time.now)])
    assert run_retention(root, NOW, rejects_days=10)["rejects"]["files_removed"] == 0
    inbox.commit(NOW, [{"topic_id": topic.topic_id, "value": b"w"}])
    Orderer(root, 2, wall=time).drain()
    assert run_retention(root, NOW)["rejects"]["files_removed"] == 1
    assert rows_in(root, "rejects") == []


# -- shards ---------------------------------------------------------------------------------------


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


def test_a_shard_that_another_run_removes_under_way_is_passed_over(
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
    folder.work.upkeep(set())
    committed(root, topic, "g", 8)
    folder.drain()
    assert run_retention(root, later)["journal"]["shards_removed"] == [taken.name]
    (state,) = read_group_state(root).states.values()
    assert (state.committed_offset, state.epoch) == (8, before[state.key].epoch)


def test_the_order_of_the_hours_is_that_of_the_folders() -> None:
    assert hour_of(NOW - HOUR) < hour_of(NOW)


# -- the job --------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [["-m", "jobs.retention"], ["jobs/retention.py"]])
def test_the_job_reports_in_json_and_has_exit_codes(
    root: QueueRoot, log: LogBuilder, time: Time, start: list[str], tmp_path: Path
) -> None:
    topic = a_topic(root)
    fill(log, time, topic)

    def job(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *start, *args]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = job("--root", root.uri, "--json", "--dry-run")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["job"], report["dry_run"]) == ("jobs.retention", True)
    assert report["log"]["topics"]["orders"]["rows_removed"] == 3
    assert first(root, topic) == 0
    done = job("--root", root.uri)
    assert (done.returncode, "files_removed: 1" in done.stdout) == (0, True)
    assert first(root, topic) == 3
    assert job("--rejects-days", "0.5").returncode == 2
    missing = job("--root", str(tmp_path / "none"))
    assert (missing.returncode, "there is no queue" in missing.stderr) == (4, True)
    assert not (tmp_path / "none").exists()
    assert "exit codes" in job("--help").stdout


def test_records_ordered_beside_retention_are_all_there_once(root: QueueRoot, time: Time) -> None:
    topic = a_topic(root)
    inbox = Inbox(root, "n")
    time.now = NOW - 40 * HOUR
    orderer = Orderer(root, 1, wall=time)
    for n in range(5):
        inbox.commit(time.now + n, [{"topic_id": topic.topic_id, "value": b"%d" % n}])
    orderer.drain()
    assert run_retention(root, NOW)["log"]["topics"]["orders"]["rows_removed"] == 5
    for n in range(5, 9):
        inbox.commit(NOW + n, [{"topic_id": topic.topic_id, "value": b"%d" % n}])
    orderer.drain()
    assert [row["offset"] for row in rows_in(root, "log")] == [5, 6, 7, 8]
    assert TopicId(topic.topic_id) in LogReader(root).topic_ids()
    with pytest.raises(AssertionError):
        judge(root)  # the first five are gone, as they should be
