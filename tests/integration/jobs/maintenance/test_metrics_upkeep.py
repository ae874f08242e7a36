"""`metrics` and `group_history` stay small: joined, thinned out, vacuumed."""

from __future__ import annotations

import time
from typing import Any

import pytest
from deltalake import DeltaTable

from jobs.measuring.history import DENSE_US
from lakequeue.clock import wall_micros
from queue_tables.delta.actions import Add, Txn
from queue_tables.delta.maintenance import append_once
from queue_tables.delta.table import TableLog
from queue_tables.files.parquet import read_data_file, write_data_file
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import METRICS
from queue_tables.upkeep.clean_up import vacuum_table
from tests.support.data.log_builder import LogBuilder
from tests.support.data.wall import HOUR
from tests.support.runs.maintenance_process import run_compaction, run_metrics, run_retention

DAY = 24 * HOUR
BEGIN = wall_micros() // DAY * DAY - 5 * DAY
NOW = BEGIN + 2 * DAY + 3 * HOUR + HOUR // 2


@pytest.fixture
def measured(root: QueueRoot) -> QueueRoot:
    """A record in the first of 51 hours, all of them measured."""
    log = LogBuilder(root, wall=lambda: BEGIN)
    log.append(log.topic("orders", partitions=1), ["a"])
    assert len(run_metrics(root, NOW)["hours"]) == 51
    return root


def rows(root: QueueRoot, table: str = "metrics") -> list[dict[str, Any]]:
    """As another engine reads them."""
    found = DeltaTable(f"{root.uri}/{table}").to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: row["hour"])


def files(root: QueueRoot, table: str) -> dict[str, Add]:
    return dict(TableLog(root.store, table).open().files)


def test_days_that_are_over_become_one_file_and_the_next_hour_goes_on_from_it(
    measured: QueueRoot,
) -> None:
    before = rows(measured)
    dry = run_compaction(measured, NOW, dry_run=True)["metrics"]
    assert (dry["files_before"], dry["files_after"], dry["commits"]) == (48, 2, 0)
    assert run_compaction(measured, NOW)["metrics"]["commits"] == 2
    assert len(files(measured, "metrics")) == 2 + 3
    assert rows(measured) == before
    assert run_compaction(measured, NOW)["metrics"]["commits"] == 0
    later = NOW + DAY
    run_compaction(measured, later)
    assert run_metrics(measured, later, most_hours=1)["rows"] == 1
    assert rows(measured)[-1]["end_offset"] == before[-1]["end_offset"] == 1


def test_days_expire_as_a_whole_and_their_files_are_deleted(measured: QueueRoot) -> None:
    before = rows(measured)
    run_compaction(measured, NOW)
    old = BEGIN + 11 * DAY + 1
    dry = run_retention(measured, old, metrics_days=10.0, dry_run=True)["metrics"]
    assert dry["files_removed"] == 1
    assert len(rows(measured)) == 51
    assert run_retention(measured, old, metrics_days=10.0)["metrics"]["files_removed"] == 1
    assert rows(measured) == before[24:]
    done = run_compaction(measured, NOW, grace_hours=0)["vacuum"]["metrics"]
    assert done["files_deleted"] == 48 + 1


def test_where_groups_were_is_thinned_out_and_ends_with_the_records(measured: QueueRoot) -> None:
    for n in range(1, 4):
        assert run_metrics(measured, NOW + n * HOUR)["groups_kept_as_of"] is not None
    assert len(files(measured, "group_history")) == 4
    later = NOW + DENSE_US + DAY
    report = run_retention(measured, later)["history"]
    assert (report["files_removed"], report["instants"]) == (3, 1), "one of a day long ago"
    assert run_retention(measured, later)["history"]["files_removed"] == 0
    (kept,) = files(measured, "group_history")
    run_metrics(measured, later)
    assert run_retention(measured, later, history_mb=0)["history"]["instants"] == 1
    assert kept not in files(measured, "group_history"), "the newest stays"


def test_a_run_that_slept_with_its_file_written_does_not_commit_what_was_vacuumed(
    measured: QueueRoot,
) -> None:
    table = TableLog(measured.store, "metrics").open()
    (path, *_) = table.files
    copy = read_data_file(measured.store, "metrics", path)
    add = write_data_file(measured.store, "metrics", copy, {}, METRICS)
    after = time.time() + 0.001
    while time.time() < after:
        pass  # the vacuum goes by milliseconds
    vacuum_table(measured, "metrics", 0, dry_run=False)
    assert not append_once(table, add, Txn("metrics", 1 << 40), {})
    assert len(rows(measured)) == 51
    other = write_data_file(measured.store, "metrics", copy, {}, METRICS)
    assert append_once(table, other, Txn("metrics", 1 << 40), {})
    late = write_data_file(measured.store, "metrics", copy, {}, METRICS)
    assert not append_once(table, late, Txn("metrics", 1 << 40), {})
    assert {add.path for add in (add, late)}.isdisjoint(files(measured, "metrics"))
