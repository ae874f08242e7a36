"""`metrics`, `group_history` and `audit` stay small: joined, thinned out, vacuumed."""

from __future__ import annotations

import time
from typing import Any

import pytest
from deltalake import DeltaTable

from jobs.measuring.history import DENSE_US
from lakequeue.clock import wall_micros
from queue_access.audit_line import Line
from queue_tables.audit import Audit
from queue_tables.delta.actions import Add, Txn
from queue_tables.delta.maintenance import VACUUM_INFO, append_once
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


def test_days_of_the_audit_become_one_file_and_its_writers_go_on(root: QueueRoot) -> None:
    tomorrow = wall_micros() + 2 * DAY
    assert run_compaction(root, tomorrow)["audit"]["commits"] == 0
    assert not root.is_table("audit"), "it is made with its first row"
    audit = Audit(root, "node-1")
    for number in range(5):
        audit.changed(Line(f"user-{number}", "PUT /v1/topics/{topic}", "done"))
    assert run_compaction(root, wall_micros())["audit"]["commits"] == 0, "the day is not over"
    assert run_compaction(root, tomorrow)["audit"]["commits"] == 1
    assert len(files(root, "audit")) == 1
    audit.changed(Line("user-5", "PUT /v1/topics/{topic}", "done"))
    found = DeltaTable(f"{root.uri}/audit").to_pyarrow_table()["principal"].to_pylist()
    assert sorted(found) == [f"user-{number}" for number in range(6)]
    assert len(files(root, "audit")) == 2


def test_an_audit_that_slept_past_a_vacuum_loses_no_row(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = Audit(root, "node-1")
    audit.changed(Line("first", "PUT /v1/topics/{topic}", "done"))
    commit = TableLog.commit

    def late(table: TableLog, *args: Any, **options: Any) -> Any:
        monkeypatch.setattr(TableLog, "commit", commit)
        named = {add.path for add in files(root, "audit").values()}
        [written] = [
            n for n in root.store.names("audit") if n.endswith("parquet") and n not in named
        ]
        # As a vacuum does it, long after: it commits that it begins, then it deletes.
        other = TableLog(root.store, "audit").open()
        other.commit([], {VACUUM_INFO: time.time_ns() // 1_000_000})
        root.store.delete(f"audit/{written}")
        return commit(table, *args, **options)

    monkeypatch.setattr(TableLog, "commit", late)
    audit.changed(Line("second", "PUT /v1/topics/{topic}", "done"))
    found = DeltaTable(f"{root.uri}/audit").to_pyarrow_table()["principal"].to_pylist()
    assert sorted(found) == ["first", "second"]
