"""The retention job on real tables, with readers, a leader and owners beside it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable

from jobs.ordering.order_state import order_number
from jobs.ordering.rejects import fenced_commit
from lakequeue.clock import hour_of
from lakequeue.errors import OffsetOutOfRange
from lakequeue.records import Epoch, Offset, Partition, TopicId
from queue_tables.delta.actions import Add, Txn
from queue_tables.delta.maintenance import rewrite_files
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import Tail
from queue_tables.groups.state import read_group_state
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import ORDER_TXN
from queue_tables.schema.topic_rules import Topic
from queue_tables.topics import TopicStore
from tests.support.data.log_builder import LogBuilder
from tests.support.data.maintained import NOW, a_topic, committed
from tests.support.data.order_truth import Inbox, judge, rows_in
from tests.support.data.wall import HOUR, Wall
from tests.support.runs.maintenance_process import run_retention
from tests.support.runs.order_process import Orderer


@pytest.fixture
def time() -> Wall:
    return Wall(NOW - 48 * HOUR)


def fill(log: LogBuilder, time: Wall, topic: Topic, hours: int = 4, per_hour: int = 3) -> None:
    """`hours` hours of records, each 11 h after the one before, the last one is now."""
    for n in range(hours):
        time.now = NOW - (hours - 1 - n) * 11 * HOUR
        log.append(topic, [f"{n}-{i}" for i in range(per_hour)])


def first(root: QueueRoot, topic: Topic) -> int:
    return LogReader(root).first_offset(topic.topic_id, Partition(0))


def test_old_files_leave_the_log_and_every_engine_and_reader_sees_the_same(
    root: QueueRoot, log: LogBuilder, time: Wall
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
    root: QueueRoot, log: LogBuilder, time: Wall
) -> None:
    topic = a_topic(root, retention_ms=None, retention_bytes=1)
    fill(log, time, topic)
    assert run_retention(root, NOW)["log"]["files_removed"] == 3
    assert first(root, topic) == 9


def test_what_a_live_group_has_not_consumed_stays_until_it_has(
    root: QueueRoot, log: LogBuilder, time: Wall
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
    root: QueueRoot, log: LogBuilder, time: Wall
) -> None:
    topic = a_topic(root)
    fill(log, time, topic, hours=5)
    committed(root, topic, "forgotten", 0, at=NOW - 40 * 24 * HOUR)
    assert run_retention(root, NOW)["log"]["files_removed"] == 0
    assert run_retention(root, NOW, forget_groups_days=41)["log"]["files_removed"] == 0
    committed(root, topic, "live", 3)
    assert run_retention(root, NOW, forget_groups_days=30)["log"]["files_removed"] == 1
    assert first(root, topic) == 3


def test_records_of_a_deleted_topic_go(root: QueueRoot, log: LogBuilder, time: Wall) -> None:
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
    root: QueueRoot, time: Wall
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
    root: QueueRoot, log: LogBuilder, time: Wall
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
                fenced_commit(
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


def test_old_rejects_go_unless_a_batch_is_half_done(root: QueueRoot, time: Wall) -> None:
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


def test_the_order_of_the_hours_is_that_of_the_folders() -> None:
    assert hour_of(NOW - HOUR) < hour_of(NOW)


# -- the job --------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [["-m", "jobs.retention"], ["jobs/retention.py"]])
def test_the_job_reports_in_json_and_has_exit_codes(
    root: QueueRoot, log: LogBuilder, time: Wall, start: list[str], tmp_path: Path
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


def test_records_ordered_beside_retention_are_all_there_once(root: QueueRoot, time: Wall) -> None:
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
