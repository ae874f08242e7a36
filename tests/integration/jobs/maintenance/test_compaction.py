"""The compaction job on real tables, with readers, a leader and another run beside it."""

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

from jobs.maintenance.log_compaction import Bounds, compact_log
from lakequeue.clock import wall_micros
from lakequeue.errors import CommitConflict
from lakequeue.records import Partition
from queue_tables.delta.maintenance import rewrite_files
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import Tail
from queue_tables.files.parquet import read_data_file
from queue_tables.log.reader import LogReader
from queue_tables.log.writer import write_log_file
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from queue_tables.upkeep.clean_up import vacuum_table
from tests.support.data.log_builder import LogBuilder
from tests.support.data.maintained import read, two_topics
from tests.support.data.order_truth import Inbox, rows_in
from tests.support.data.wall import HOUR, Wall
from tests.support.runs.maintenance_process import run_compaction, run_retention, start
from tests.support.runs.order_process import Orderer

NOW = wall_micros()
THEN = NOW - 5 * HOUR


@pytest.fixture
def time() -> Wall:
    """Five hours ago, a second a look."""
    return Wall(THEN - THEN % HOUR, 1_000_000)


def everything(root: QueueRoot) -> list[tuple[Any, ...]]:
    """The rows of `log` with every column, as they stand in its files."""
    rows = rows_in(root, "log")
    return sorted(
        (r["topic"], r["partition"], r["offset"], json.dumps(r, default=str)) for r in rows
    )


def test_closed_hours_become_one_file_a_topic_and_no_reader_sees_a_difference(
    root: QueueRoot, time: Wall
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


def test_an_open_hour_is_left_alone(root: QueueRoot, time: Wall) -> None:
    time.now = NOW
    two_topics(root, time, batches=3)
    assert run_compaction(root, NOW)["log"]["files_before"] == 0
    just_closed = (NOW // HOUR + 1) * HOUR + 60 * 1_000_000
    assert run_compaction(root, just_closed)["log"]["files_before"] == 0
    assert run_compaction(root, just_closed + 2 * 60 * 1_000_000)["log"]["files_before"] == 3


def test_a_run_is_bounded_and_the_next_one_goes_on(
    root: QueueRoot, log: LogBuilder, time: Wall
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


def test_topics_that_are_apart_expire_by_their_own_rules(root: QueueRoot, time: Wall) -> None:
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
    root: QueueRoot, time: Wall
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
    root: QueueRoot, time: Wall
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


def test_runs_at_once_leave_the_log_as_one_would(root: QueueRoot, time: Wall) -> None:
    two_topics(root, time)
    before = everything(root)
    runs = [start("compaction", root, NOW, "--no-grace") for _ in range(3)]
    assert [run.wait(60) for run in runs] == [0, 0, 0]
    assert everything(root) == before
    assert len(load_snapshot(root.store, "log").files) == 2


def test_rejects_of_a_closed_hour_become_one_file_and_stay_the_same(
    root: QueueRoot, time: Wall
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


@pytest.mark.parametrize("start", [["-m", "jobs.compaction"], ["jobs/compaction.py"]])
def test_the_job_reports_in_json_and_has_exit_codes(
    root: QueueRoot, time: Wall, start: list[str], tmp_path: Path
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
