"""What happens to a queue under its jobs: a topic goes, or comes again; a table is another's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from jobs import compaction, fork, metrics, mirror, retention
from jobs.command_line.options import Exit
from lakequeue.records import Offset, Partition
from queue_tables.delta.actions import Metadata
from queue_tables.delta.columns import Table
from queue_tables.delta.declared import delta_schema
from queue_tables.delta.table import TableLog
from queue_tables.groups.state import read_group_offsets
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import GROUP_OFFSETS, LOG, TOPICS
from queue_tables.schema.topic_rules import Topic
from queue_tables.topics import TopicStore
from tests.support.data.order_truth import log_rows
from tests.support.data.replicas import NOW, commit, fill, first_life, is_same
from tests.support.data.wall import HOUR
from tests.support.runs.fold_process import Folder
from tests.support.runs.maintenance_process import run_compaction, run_metrics, run_retention
from tests.support.runs.mirror_process import run_mirror

Main = Callable[[list[str]], int]
JOBS: dict[str, Main] = {
    "compaction": compaction.main,
    "metrics": metrics.main,
    "retention": retention.main,
    "mirror": mirror.main,
    "fork": fork.main,
}


@pytest.fixture
def again(root: QueueRoot) -> tuple[QueueRoot, Topic, Topic]:
    """A topic of which a group has consumed, gone and come again while jobs run; both of them."""
    old = first_life(root)
    folder = Folder(root, 1)
    folder.drain()
    run_metrics(root, NOW - 7 * HOUR)
    topics = TopicStore(root)
    topics.delete("orders")
    commit(root, old, "billing", 3)
    new = topics.create("orders", partitions=2)[0]
    commit(root, new, "billing", 1)
    fill(root, 2, 3, "xy", [new])
    folder.drain()
    return root, old, new


def read_all(root: QueueRoot, topic: Topic) -> list[bytes]:
    rows = LogReader(root).read_range(topic.topic_id, Partition(0), Offset(0), 100)
    values: list[bytes] = rows["value"].to_pylist()
    return values


def test_positions_of_a_topic_that_is_gone_and_of_the_one_that_came_stay_apart(
    again: tuple[QueueRoot, Topic, Topic],
) -> None:
    root, old, new = again
    states = read_group_offsets(root)[0].values()
    assert {s.topic_id: s.committed_offset for s in states} == {old.topic_id: 3, new.topic_id: 1}


def test_maintenance_takes_what_is_gone_and_leaves_what_came(
    again: tuple[QueueRoot, Topic, Topic],
) -> None:
    root, old, new = again
    assert run_compaction(root, NOW)["log"]["stale"] == 0
    report = run_retention(root, NOW)
    assert not [part for part in report.values() if "failed" in part]
    assert report["log"]["topics"][f"deleted {old.topic_id}"]["rows_removed"] == 8
    assert {row["topic_id"] for row in log_rows(root) if row["topic"] == "orders"} == {new.topic_id}
    assert read_all(root, new) == [b"x0", b"y0"]
    run_metrics(root, NOW + 2 * HOUR)
    rows = DeltaTable(f"{root.uri}/metrics").to_pyarrow_table().to_pylist()
    last = max(row["hour"] for row in rows)
    mine = [row for row in rows if row["hour"] == last and row["topic"] == "orders"]
    assert {row["topic_id"] for row in mine} == {new.topic_id}
    told = {(row["partition"], row["group"]): (row["end_offset"], row["lag"]) for row in mine}
    assert told == {(0, None): (2, None), (1, None): (2, None), (0, "billing"): (2, 1)}


def test_a_replica_follows_a_topic_that_goes_and_comes_again(
    root: QueueRoot, tmp_path: Path
) -> None:
    to = str(tmp_path / "replica")
    first_life(root)
    run_mirror(root, to)
    topics = TopicStore(root)
    topics.delete("orders")
    run_mirror(root, to)
    new = topics.create("orders", partitions=2)[0]
    fill(root, 2, 3, "xy", [new])
    run_retention(root, NOW)
    run_mirror(root, to)
    replica = QueueRoot.existing(to, replica_too=True)
    is_same(replica, root)
    assert read_all(replica, new) == [b"x0", b"y0"]


@pytest.mark.parametrize("table", [LOG, TOPICS], ids=lambda table: table.name)
@pytest.mark.parametrize("job", JOBS)
def test_tables_of_another_release_are_named_and_not_touched(
    root: QueueRoot, tmp_path: Path, job: str, table: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    """A column that this release does not know would be lost when files are rewritten."""
    first_life(root)
    log = TableLog(root.store, table.name).open()
    columns = delta_schema(GROUP_OFFSETS.arrow)
    log.commit([Metadata(log.metadata.id, columns, table.partition_by)])
    before = {name: TableLog(root.store, name).open().version for name in ("log", "topics")}
    to = ["--to", str(tmp_path / "to")] if job in {"mirror", "fork"} else []
    assert JOBS[job](["--root", root.uri, "--json", *to]) == Exit.UNUSABLE
    said = capsys.readouterr()
    assert f"{table.name}: columns" in said.err
    assert said.out == ""
    assert {name: TableLog(root.store, name).open().version for name in before} == before
    assert not Path(to[-1], "log").exists() if job == "fork" else True


def test_what_is_not_there_yet_is_made_or_named_by_a_job_that_came_first(
    root: QueueRoot, capsys: pytest.CaptureFixture[str]
) -> None:
    """The root of an older release, before a process of this one has opened it."""
    first_life(root)
    for path in sorted(Path(root.uri, "group_history").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    Path(root.uri, "group_history").rmdir()
    assert retention.main(["--root", root.uri, "--json"]) == Exit.FAILED
    assert "group_history" in json.loads(capsys.readouterr().out)["history"]["failed"]
    assert metrics.main(["--root", root.uri, "--json"]) == Exit.STOPPED
    assert retention.main(["--root", root.uri, "--json"]) == Exit.STOPPED


@pytest.mark.parametrize("job", JOBS)
def test_a_queue_without_a_topic_is_nothing_to_trip_over(root: QueueRoot, job: str) -> None:
    to = ["--to", f"{root.uri}-{job}"] if job in ("mirror", "fork") else []
    assert JOBS[job](["--root", root.uri, "--json", *to]) == Exit.STOPPED
