"""Joins the small files of tables in which nobody looks for offsets.

Of `rejects` those of a closed hour, of `metrics` and `audit` those of a day that is over.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa
import structlog

from jobs.maintenance.compaction_rules import HourFile, plan_groups
from jobs.maintenance.damaged_files import DamagedFiles
from jobs.maintenance.log_compaction import Bounds, CompactionReport
from jobs.maintenance.shard_rules import CLOSED_AFTER_US
from lakequeue.clock import Micros, hour_of
from lakequeue.errors import CommitConflict
from lakequeue.steps import Step, reach
from queue_tables.delta.actions import Add
from queue_tables.delta.columns import Table
from queue_tables.delta.maintenance import rewrite_files
from queue_tables.delta.table import TableLog
from queue_tables.files.parquet import read_data_file, write_data_file
from queue_tables.files.stats import FileStats
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import AUDIT, METRICS, REJECTS

log = structlog.get_logger("compaction")

_DAY = len("2013-01-31")


def compact_rejects(
    root: QueueRoot, now: Micros, bounds: Bounds, *, dry_run: bool
) -> CompactionReport:
    """Rewrite closed hours, up to the bound of a run. Rows keep their order."""
    closed_before = hour_of(now - CLOSED_AFTER_US)
    return _compact(root, REJECTS, _hour_of, closed_before, bounds, dry_run=dry_run)


def compact_metrics(
    root: QueueRoot, now: Micros, bounds: Bounds, *, dry_run: bool
) -> CompactionReport:
    """The same with days of `metrics`: retention lets whole days go."""
    return _compact_days(root, METRICS, "hour", now, bounds, dry_run=dry_run)


def compact_audit(
    root: QueueRoot, now: Micros, bounds: Bounds, *, dry_run: bool
) -> CompactionReport:
    """The same with days of `audit`, if there is one: whoever is refused all day long makes a file
    a second at each node. All rows stay."""
    if not root.is_table(AUDIT.name):
        return CompactionReport()
    return _compact_days(root, AUDIT, "at", now, bounds, dry_run=dry_run)


def _compact_days(
    root: QueueRoot, declared: Table, column: str, now: Micros, bounds: Bounds, *, dry_run: bool
) -> CompactionReport:
    closed_before = hour_of(now - CLOSED_AFTER_US)[:_DAY]
    range_of = partial(day_of, column=column)
    return _compact(root, declared, range_of, closed_before, bounds, dry_run=dry_run)


def day_of(add: Add, column: str = "hour") -> str:
    """The newest day in a file; one behind all if it is not known. Pure."""
    return (FileStats(add.stats).high(column, str) or "~")[:_DAY]


def _hour_of(add: Add) -> str:
    return add.partition_values["hour"] or ""


def _compact(
    root: QueueRoot,
    declared: Table,
    range_of: Callable[[Add], str],
    closed_before: str,
    bounds: Bounds,
    *,
    dry_run: bool,
) -> CompactionReport:
    report, damaged = CompactionReport(), DamagedFiles(root.store, declared.name)
    table = TableLog(root.store, declared.name).open()
    files = [_file(add, range_of) for add in table.files.values()]
    closed = [file for file in files if file.hour < closed_before]
    for group in plan_groups(closed, bounds.target_bytes, bounds.step_bytes):
        size = sum(file.size for file in group)
        if report.bytes_read and report.bytes_read + size > bounds.run_bytes:
            report.unfinished = True
            break
        if dry_run or _join(table, declared, group, report, damaged):
            report.bytes_read += size
            report.files_before += len(group)
            report.files_after += 1
    report.damage = damaged.report()
    return report


def _file(add: Add, range_of: Callable[[Add], str]) -> HourFile:
    return HourFile(add.path, range_of(add), add.size, "", "", add.modification_time, 0)


def _join(
    table: TableLog,
    declared: Table,
    group: list[HourFile],
    report: CompactionReport,
    damaged: DamagedFiles,
) -> bool:
    """One commit; False if a file is damaged, or another run of maintenance was faster."""
    made: list[Add] = []
    try:
        removes = [table.files[file.path] for file in group if file.path in table.files]
        if len(removes) < len(group):
            raise CommitConflict(f"planned files have left {table.path}", stored="no", commits=())
        read = partial(read_data_file, table.store, table.path)
        sources = [
            damaged.unless_damaged(add.path, partial(read, add.path, vector=add.deletion_vector))
            for add in removes
        ]
        if any(file.path in damaged for file in group):
            return False  # rows keep their order: what is around the file waits for it
        joined = pa.concat_tables(sources)
        partition = dict.fromkeys(declared.partition_by, group[0].hour)
        made.append(write_data_file(table.store, table.path, joined, partition, declared))
        reach(Step.COMPACTION_DATA_WRITTEN)
        info = {"compaction": True, "files": [len(removes), 1]}
        rewrite_files(table, removes, made, info, data_change=False)
    except (CommitConflict, FileNotFoundError) as other:
        for add in made:
            table.store.delete(f"{table.path}/{add.path}")
        log.info("plan.outdated", why=str(other))
        report.stale += 1
        return False
    reach(Step.COMPACTION_COMMITTED)
    report.commits += 1
    return True
