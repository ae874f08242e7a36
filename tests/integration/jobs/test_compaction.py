"""The compaction job on real tables, with readers, a leader and another run beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time as clock
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from jobs.log_compaction import Bounds, compact_log
from jobs.order_state import ORDER_TXN, order_number
from jobs.rejects import commit_fenced
from lakequeue.clock import hour_of, wall_micros
from lakequeue.errors import CommitConflict, LeadershipLost
from lakequeue.records import Epoch, Offset, Partition, Stamp, TopicId
from queue_tables.clean_up import clean_commits, vacuum_table
from queue_tables.delta_log import Remove, Txn
from queue_tables.fact_rows import to_arrow
from queue_tables.facts import Fact, Kind
from queue_tables.group_state import read_group_state
from queue_tables.log_reader import LogReader
from queue_tables.log_writer import write_log_file
from queue_tables.maintenance import rewrite_files
from queue_tables.parquet import read_data_file
from queue_tables.root import QueueRoot
from queue_tables.shards import ShardWriter
from queue_tables.snapshot import load_snapshot
from queue_tables.table import TableLog
from queue_tables.tail import Tail, commit_versions, find_version
from queue_tables.topic_rules import Topic
from queue_tables.topics import TopicStore
from queue_tables.upkeep import checkpoint_table
from tests.support.compaction_process import run_compaction
from tests.support.log_builder import LogBuilder
from tests.support.order_process import Orderer
from tests.support.order_truth import Inbox, rows_in
from tests.support.retention_process import run_retention
from tests.support.rows import inbox_rows

HOUR = 3_600 * 1_000_000
NOW = wall_micros()
THEN = NOW - 5 * HOUR


class Time:
    """The wall clock of a test: five hours ago, a second a look."""

    now = THEN - THEN % HOUR

    def __call__(self) -> int:
        self.now += 1_000_000
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def log(root: QueueRoot, time: Time) -> LogBuilder:
    return LogBuilder(root, wall=time)


def two_topics(root: QueueRoot, time: Time, batches: int = 12) -> tuple[Topic, Topic]:
    """Ordered by the order job's own parts: each log file holds both topics, two partitions."""
    topics = TopicStore(root)
    first, second = (topics.create(name, partitions=2)[0] for name in ("orders", "visits"))
    inbox, orderer = Inbox(root, "n"), Orderer(root, 1, wall=time)
    for n in range(batches):
        inbox.commit(
            time(),
            [
                {"topic_id": topic.topic_id, "partition": p, "value": b"%d-%d" % (n, p)}
                for topic in (first, second)
                for p in (0, 1)
            ],
        )
        orderer.drain()
    return first, second


def everything(root: QueueRoot) -> list[tuple[Any, ...]]:
    """The rows of `log` with every column, as they stand in its files."""
    rows = rows_in(root, "log")
    return sorted(
        (r["topic"], r["partition"], r["offset"], json.dumps(r, default=str)) for r in rows
    )


def read(reader: LogReader, topic: Topic, partition: int = 0, start: int = 0) -> list[bytes]:
    rows = reader.read_range(topic.topic_id, Partition(partition), Offset(start), 10_000)
    values: list[bytes] = rows["value"].to_pylist()
    return values


def test_closed_hours_become_one_file_a_topic_and_no_reader_sees_a_difference(
    root: QueueRoot, time: Time
) -> None:
    first, second = two_topics(root, time)
    before = everything(root)
    live, behind, asleep = LogReader(root), LogReader(root), LogReader(root)
    read(live, first)
    tail = Tail(root.store, "log", live.version)
    dry = run_compaction(root, NOW, dry_run=True)["log"]
    assert (dry["files_before"], dry["files_after"], dry["commits"]) == (12, 2, 0)
    report = run_compaction(root, NOW)["log"]
    assert (report["files_before"], report["files_after"], report["stale"]) == (12, 2, 0)
    assert everything(root) == before
    assert [c for c in tail.poll() if c.appends] == []
    assert [c for c in live.refresh() if c.appends] == []
    expected = [b"%d-1" % n for n in range(12)]
    for reader in (live, behind, LogReader(root)):
        assert read(reader, first, 1) == expected
        assert read(reader, second, 1) == expected
        assert read(reader, first, 1, start=5) == expected[5:]
    vacuum_table(root, "log", 0, dry_run=False)
    assert read(asleep, first, 1) == expected, "it knew only files that are gone"
    files = load_snapshot(root.store, "log").files
    for path in files:
        rows = read_data_file(root.store, "log", path).select(["topic", "partition", "offset"])
        assert rows.sort_by([(n, "ascending") for n in rows.column_names]).equals(rows)
    assert run_compaction(root, NOW)["log"]["commits"] == 0


def test_an_open_hour_is_left_alone(root: QueueRoot, time: Time) -> None:
    time.now = NOW
    two_topics(root, time, batches=3)
    assert run_compaction(root, NOW)["log"]["files_before"] == 0
    just_closed = (NOW // HOUR + 1) * HOUR + 60 * 1_000_000
    assert run_compaction(root, just_closed)["log"]["files_before"] == 0
    assert run_compaction(root, just_closed + 2 * 60 * 1_000_000)["log"]["files_before"] == 3


def test_a_run_is_bounded_and_the_next_one_goes_on(
    root: QueueRoot, log: LogBuilder, time: Time
) -> None:
    topic = log.topic("orders")
    for _ in range(6):
        log.append(topic, ["x"])
        time.now += HOUR
        log.append(topic, ["y"])
    bounds = Bounds(run_bytes=1)
    rounds = 0
    before = everything(root)
    while compact_log(root, NOW + 9 * HOUR, bounds, dry_run=False).commits:
        rounds += 1
    assert rounds == 5
    assert everything(root) == before


def test_files_that_are_large_only_in_memory_are_joined_as_far_as_they_fit(
    root: QueueRoot, log: LogBuilder
) -> None:
    """A hundred of these would be one small file, and gigabytes while it is written."""
    topic = TopicStore(root).create("orders", partitions=1)[0]
    for n in range(6):
        log.append(topic, [b"%d" % n * 1_000_000])
    before = everything(root)
    assert all(add.size < 100_000 for add in LogReader(root).files())
    report = compact_log(root, NOW, Bounds(held_bytes=2_500_000), dry_run=False)
    assert (report.files_before, report.files_after) == (6, 3)
    assert everything(root) == before


def test_topics_that_are_apart_expire_by_their_own_rules(root: QueueRoot, time: Time) -> None:
    """Before, a file that both topics share stays for the one that keeps everything."""
    first, second = two_topics(root, time)
    TopicStore(root).alter("orders", retention_ms=3_600_000)
    assert run_retention(root, NOW)["log"]["files_removed"] == 0
    run_compaction(root, NOW)
    assert run_retention(root, NOW)["log"]["topics"]["orders"]["rows_removed"] == 24
    reader = LogReader(root)
    assert reader.first_offset(first.topic_id, Partition(0)) == 12
    assert len(read(reader, second)) == 12
    run_compaction(root, NOW, grace_hours=0)
    table = DeltaTable(f"{root.uri}/log")
    duck = duckdb.connect().register("log", table.to_pyarrow_dataset())
    found = duck.execute('SELECT topic, "partition", "offset" FROM log').fetchall()
    ours = sorted((r["topic"], r["partition"], r["offset"]) for r in rows_in(root, "log"))
    assert sorted(found) == ours
    assert len(ours) == table.to_pyarrow_table().num_rows == 24
    assert len(list(Path(root.uri, "log").glob("hour=*/*.parquet"))) == len(table.file_uris())


def test_a_consumer_that_reads_on_gets_each_record_once_while_all_is_rewritten(
    root: QueueRoot, time: Time
) -> None:
    """A leader appends, hours are compacted, a reader polls: no gap, no copy."""
    topics = TopicStore(root)
    topic = topics.create("orders", partitions=1)[0]
    inbox = Inbox(root, "n")
    orderer = Orderer(root, 1, wall=time)
    done = threading.Event()
    errors: list[BaseException] = []

    def lead() -> None:
        try:
            for n in range(60):
                time.now += HOUR // 30
                record = {"topic_id": topic.topic_id, "value": b"%d" % n}
                inbox.commit(time.now, [record])
                orderer.drain()
        except BaseException as error:  # noqa: BLE001 -- told by the test
            errors.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=lead)
    thread.start()
    reader, tailed = LogReader(root), []
    seen: list[bytes] = []
    commits = 0
    while True:
        last = done.is_set()
        commits += run_compaction(root, NOW + 9 * HOUR)["log"]["commits"]
        for commit in reader.refresh():
            if commit.appends:
                tailed.append(commit.version)
        seen += read(reader, topic, start=len(seen))
        if last:
            break
    thread.join()
    assert errors == []
    assert seen == [b"%d" % n for n in range(60)]
    assert commits > 0
    assert len(tailed) == len(set(tailed)) <= 60
    assert read(LogReader(root), topic) == seen


def test_a_compaction_that_another_was_faster_with_changes_nothing(
    root: QueueRoot, time: Time
) -> None:
    first, _ = two_topics(root, time)
    slow = TableLog(root.store, "log").open()
    before = everything(root)
    some = list(slow.files.values())[:3]
    rows = read_data_file(root.store, "log", some[0].path)
    mine = write_log_file(root.store, rows, some[0].partition_values["hour"] or "")
    run_compaction(root, NOW)
    with pytest.raises(CommitConflict, match="3 of 3 files have left"):
        rewrite_files(slow, some, [mine], {}, data_change=False)
    assert everything(root) == before
    assert len(read(LogReader(root), first)) == 12


def test_runs_at_once_leave_the_log_as_one_would(root: QueueRoot, time: Time) -> None:
    two_topics(root, time)
    before = everything(root)
    command = [sys.executable, "-m", "tests.support.compaction_process", "--root", root.uri]
    command += ["--now", str(NOW), "--grace-hours", "0"]
    runs = [subprocess.Popen(command, stdout=-3) for _ in range(3)]
    assert [run.wait(60) for run in runs] == [0, 0, 0]
    assert everything(root) == before
    assert len(load_snapshot(root.store, "log").files) == 2


def test_rejects_of_a_closed_hour_become_one_file_and_stay_the_same(
    root: QueueRoot, time: Time
) -> None:
    topic = TopicStore(root).create("orders", partitions=1)[0]
    inbox, orderer = Inbox(root, "n"), Orderer(root, 1, wall=time)
    record = {"topic_id": topic.topic_id, "value": b"v", "message_id": "m"}
    for _ in range(5):
        inbox.commit(time(), [record])
        orderer.drain()
    before = sorted(map(str, rows_in(root, "rejects")))
    assert len(before) == 4
    report = run_compaction(root, NOW)["rejects"]
    assert (report["files_before"], report["files_after"], report["commits"]) == (4, 1, 1)
    assert len(load_snapshot(root.store, "rejects").files) == 1
    assert sorted(map(str, rows_in(root, "rejects"))) == before
    inbox.commit(time(), [record])
    assert orderer.drain() == [{"rows": 1, "ordered": 0, "duplicates": 1}]
    assert run_compaction(root, NOW, dry_run=True)["rejects"]["files_before"] == 2


# -- vacuum ---------------------------------------------------------------------------------------


def aged(path: Path, hours: float) -> None:
    at = clock.time() - hours * 3_600
    os.utime(path, (at, at))


def test_vacuum_takes_what_left_the_table_and_what_never_came_after_the_grace(
    root: QueueRoot, time: Time
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
    root: QueueRoot, time: Time
) -> None:
    topic, _ = two_topics(root, time, batches=1)
    leader = TableLog(root.store, "log", keep_files=False).open()
    rows = read_data_file(root.store, "log", next(iter(load_snapshot(root.store, "log").files)))
    written = write_log_file(root.store, rows, hour_of(time.now))
    vacuum_table(root, "log", 0, dry_run=False)
    txn = Txn(ORDER_TXN, order_number(1, 99))
    with pytest.raises(LeadershipLost, match="a vacuum came while this leader slept"):
        commit_fenced(leader, [written, txn], {}, Epoch(1))
    assert len(read(LogReader(root), topic)) == 1
    # With files written since it goes on.
    fresh = write_log_file(root.store, rows, hour_of(time.now))
    stale = TableLog(root.store, "log", keep_files=False).open()
    TableLog(root.store, "log").open().commit([], {"vacuum": fresh.modification_time - 3_600_000})
    commit_fenced(stale, [fresh, txn], {}, Epoch(1))
    assert fresh.path in load_snapshot(root.store, "log").files


def test_a_leader_that_was_idle_while_maintenance_went_on_and_was_cleaned_up_resigns(
    root: QueueRoot, time: Time
) -> None:
    topic, _ = two_topics(root, time, batches=1)
    leader = TableLog(root.store, "log", keep_files=False).open()
    for _ in range(3):
        TableLog(root.store, "log").open().commit([], {"vacuum": 1})
    checkpoint_table(root, "log")
    assert clean_commits(root, "log", later_ms()) > 0
    txns = TableLog(root.store, "log").open().txns
    with pytest.raises(LeadershipLost, match="cleaned up"):
        commit_fenced(leader, [Txn(ORDER_TXN, order_number(1, 99))], {}, Epoch(1))
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


def test_commits_of_a_shard_stay_while_they_are_not_ordered(root: QueueRoot, time: Time) -> None:
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
    monkeypatch.setattr("jobs.table_upkeep.CHECKPOINT_EVERY", 5)
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


@pytest.mark.parametrize("start", [["-m", "jobs.compaction"], ["jobs/compaction.py"]])
def test_the_job_reports_in_json_and_has_exit_codes(
    root: QueueRoot, time: Time, start: list[str], tmp_path: Path
) -> None:
    two_topics(root, time)

    def job(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *start, *args]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = job("--root", root.uri, "--json", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["log"]["files_after"] == 2
    assert len(load_snapshot(root.store, "log").files) == 12
    assert job("--root", root.uri).returncode == 0
    assert len(load_snapshot(root.store, "log").files) == 2
    assert job("--grace-hours", "0").returncode == 2
    assert job("--root", str(tmp_path / "none")).returncode == 4
    assert "exit codes" in job("--help").stdout
