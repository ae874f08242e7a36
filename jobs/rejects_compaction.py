"""Joins the small files of closed hours of `rejects`: nobody looks for offsets there."""

from __future__ import annotations

import pyarrow as pa
import structlog

from jobs.compaction_rules import HourFile, plan_groups
from jobs.log_compaction import Bounds, CompactionReport
from jobs.shard_rules import CLOSED_AFTER_US
from lakequeue.clock import Micros, hour_of
from lakequeue.errors import CommitConflict
from lakequeue.steps import Step, reach
from queue_tables.delta_log import Add
from queue_tables.maintenance import rewrite_files
from queue_tables.parquet import read_data_file, write_data_file
from queue_tables.root import QueueRoot
from queue_tables.schemas import REJECTS
from queue_tables.table import TableLog

log = structlog.get_logger("compaction")


def compact_rejects(
    root: QueueRoot, now: Micros, bounds: Bounds, *, dry_run: bool
) -> CompactionReport:
    """Rewrite closed hours, up to the bound of a run. Rows keep their order."""
    report = CompactionReport()
    table = TableLog(root.store, REJECTS.name).open()
    closed_before = hour_of(now - CLOSED_AFTER_US)
    files = [_hour_file(add) for add in table.files.values()]
    closed = [file for file in files if file.hour < closed_before]
    for group in plan_groups(closed, bounds.target_bytes, bounds.step_bytes):
        size = sum(file.size for file in group)
        if report.bytes_read and report.bytes_read + size > bounds.run_bytes:
            report.unfinished = True
            break
        report.bytes_read += size
        report.files_before += len(group)
        report.files_after += 1
        if not dry_run:
            _join(table, group, report)
    return report


def _hour_file(add: Add) -> HourFile:
    hour = add.partition_values["hour"] or ""
    return HourFile(add.path, hour, add.size, "", "", add.modification_time, 0)


def _join(table: TableLog, group: list[HourFile], report: CompactionReport) -> None:
    made: list[Add] = []
    try:
        removes = [table.files[file.path] for file in group if file.path in table.files]
        if len(removes) < len(group):
            raise CommitConflict("planned files have left rejects", stored="no", commits=())
        rows = [read_data_file(table.store, table.path, add.path) for add in removes]
        partition = {"hour": group[0].hour}
        joined = pa.concat_tables(rows)
        made.append(write_data_file(table.store, table.path, joined, partition, REJECTS))
        reach(Step.COMPACTION_DATA_WRITTEN)
        info = {"compaction": True, "files": [len(removes), 1]}
        rewrite_files(table, removes, made, info, data_change=False)
    except (CommitConflict, FileNotFoundError) as other:
        for add in made:
            table.store.delete(f"{table.path}/{add.path}")
        log.info("stale", why=str(other))
        report.stale += 1
        return
    reach(Step.COMPACTION_COMMITTED)
    report.commits += 1
