"""Rewrites closed hours of `log`. The rules: `jobs.maintenance.compaction_rules`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import structlog

from jobs.maintenance.compaction_rules import (
    HourFile,
    Output,
    Parts,
    file_bounds,
    held_at_once,
    outputs_of,
    plan_groups,
    worth_it,
)
from jobs.maintenance.damaged_files import DamagedFiles
from jobs.maintenance.shard_rules import CLOSED_AFTER_US, hour_end
from lakequeue.clock import Micros, hour_of
from lakequeue.errors import CommitConflict, CorruptTable
from lakequeue.steps import Step, reach
from queue_tables.delta.actions import Add
from queue_tables.delta.maintenance import rewrite_files
from queue_tables.delta.table import TableLog
from queue_tables.files.parquet import read_data_file
from queue_tables.files.stats import FileStats, oldest_micros
from queue_tables.log.contested import REPAIR
from queue_tables.log.reader import LogReader
from queue_tables.log.writer import write_log_file
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import LOG

log = structlog.get_logger("compaction")


@dataclass(frozen=True, slots=True)
class Bounds:
    """How large files become, and how much is read (bytes, as compressed but for one)."""

    target_bytes: int = 64 << 20
    step_bytes: int = 128 << 20
    """Of one commit."""
    run_bytes: int = 2 << 30
    held_bytes: int = 256 << 20
    """Of one commit, decoded: held in memory, four times over."""


@dataclass(slots=True)
class CompactionReport:
    """What was rewritten, or would be."""

    commits: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes_read: int = 0
    stale: int = 0
    """Groups that another run of maintenance was faster with."""
    unfinished: bool = False
    """There is more to do than one run does."""
    damage: Mapping[str, Any] = field(default_factory=dict)
    """What could not be read; empty if there is nothing (`DamagedFiles.report`)."""

    def document(self) -> dict[str, Any]:
        """For the report of the job."""
        names = [name for name in self.__dataclass_fields__ if name != "damage"]
        return {name: getattr(self, name) for name in names} | dict(self.damage)


def compact_log(root: QueueRoot, now: Micros, bounds: Bounds, *, dry_run: bool) -> CompactionReport:
    """Rewrite closed hours until there is nothing to gain, or the bound of a run is reached.

    Files that cannot be read stay as they are, and the report names them.
    """
    report, damaged = CompactionReport(), DamagedFiles(root.store, LOG.name)
    while _pass(root, now, bounds, report, damaged, dry_run=dry_run):
        pass
    report.damage = damaged.report()
    return report


def _pass(
    root: QueueRoot,
    now: Micros,
    bounds: Bounds,
    report: CompactionReport,
    damaged: DamagedFiles,
    *,
    dry_run: bool,
) -> bool:
    """Rewrite what there is now; whether there may be more."""
    reader = LogReader(root, ("offset",))
    table = TableLog(root.store, LOG.name).open()
    more = False
    for group, parts in _groups(reader, now, bounds, report, damaged):
        size = sum(file.size for file in group)
        if report.bytes_read and report.bytes_read + size > bounds.run_bytes:
            report.unfinished = True
            return False
        outputs = outputs_of(parts)
        if not worth_it(group, outputs):
            continue
        reach(Step.COMPACTION_PLANNED)
        if dry_run:
            report.bytes_read += size
            report.files_before += len(group)
            report.files_after += len(outputs)
            continue
        more = _rewrite(root, table, group, outputs, bounds, report, damaged) or more
    return more


def _groups(
    reader: LogReader,
    now: Micros,
    bounds: Bounds,
    report: CompactionReport,
    damaged: DamagedFiles,
) -> Iterator[tuple[list[HourFile], list[Parts]]]:
    """What to rewrite together, and the partitions in each of the files."""
    closed_before = hour_of(now - CLOSED_AFTER_US)
    files = [_hour_file(add) for add in reader.files() if add.path not in damaged]
    closed = [file for file in files if file.hour < closed_before]
    for group in plan_groups(closed, bounds.target_bytes, bounds.step_bytes):
        try:
            looks = [damaged.unless_damaged(f.path, partial(_look, reader, f.path)) for f in group]
        except FileNotFoundError as other:
            log.info("plan.outdated", why=str(other))
            report.stale += 1
            continue
        known = {f.path: look for f, look in zip(group, looks, strict=True) if look is not None}
        readable = [file for file in group if file.path in known]
        decoded = [known[file.path][0] for file in readable]
        for some in held_at_once(readable, decoded, bounds.held_bytes):
            yield some, [known[file.path][1] for file in some]


def _look(reader: LogReader, path: str) -> tuple[int, Parts]:
    """About how many bytes its rows are in memory, and the partitions in it."""
    return reader.decoded_bytes(path), reader.parts(path)


def _hour_file(add: Add) -> HourFile:
    stats = FileStats(add.stats)
    # A bound that cannot be said is left out. They only say what to put beside what: the rows are
    # read, and their offsets judged, before anything is written.
    hour = add.partition_values["hour"] or ""
    oldest = oldest_micros(add.stats, "ordered_at")
    return HourFile(
        add.path,
        hour,
        add.size,
        *stats.bounds("topic_id", str, "", "~"),
        hour_end(hour) if oldest is None else oldest,
        stats.low("offset", int) or 0,
    )


def _rewrite(
    root: QueueRoot,
    table: TableLog,
    group: Sequence[HourFile],
    outputs: Sequence[Output],
    bounds: Bounds,
    report: CompactionReport,
    damaged: DamagedFiles,
) -> bool:
    """One commit, or damage that the next plan leaves out; False if another run was faster."""
    made: list[Add] = []
    removes: list[Add] = []
    try:
        removes += [table.files[file.path] for file in group if file.path in table.files]
        if len(removes) < len(group):
            raise CommitConflict("planned files have left the log", stored="no", commits=())
        sources = _sources(root, removes, damaged)
        if any(file.path in damaged for file in group):
            return True
        made += _written(root, group, sources, outputs, bounds.target_bytes)
        reach(Step.COMPACTION_DATA_WRITTEN)
        info = {"compaction": True, "files": [len(removes), len(made)]}
        version = rewrite_files(table, removes, made, info, data_change=False)
    except CorruptTable as error:
        if made:
            raise  # of the table itself: no file is to blame
        for add in removes:
            damaged.note(add.path, error)
        return True
    except (CommitConflict, FileNotFoundError) as other:
        for add in made:
            root.store.delete(f"{LOG.name}/{add.path}")
        log.info("plan.outdated", why=str(other))
        report.stale += 1
        return False
    reach(Step.COMPACTION_COMMITTED)
    report.commits += 1
    report.bytes_read += sum(file.size for file in group)
    report.files_before += len(group)
    report.files_after += len(made)
    log.info("log.compacted", hour=group[0].hour, files=len(group), into=len(made), version=version)
    return True


def _sources(root: QueueRoot, removes: Sequence[Add], damaged: DamagedFiles) -> list[pa.Table]:
    """The rows of each file that can be read."""
    found = []
    for add in removes:
        read = partial(read_data_file, root.store, LOG.name, add.path, vector=add.deletion_vector)
        rows = damaged.unless_damaged(add.path, read)
        if rows is not None:
            found.append(rows)
    return found


def _written(
    root: QueueRoot,
    group: Sequence[HourFile],
    sources: Sequence[pa.Table],
    outputs: Sequence[Output],
    target_bytes: int,
) -> list[Add]:
    """The new files, durable; no commit names them."""
    made: list[Add] = []
    count = 0
    for output in outputs:
        mine = [
            sources[i].filter(pc.equal(sources[i]["topic_id"], output.topic_id))
            for i in output.inputs
        ]
        rows = _sorted(pa.concat_tables(mine))
        if not _once(rows):
            raise CorruptTable(
                f"log files of {group[0].hour}: topic {output.topic_id} has offsets twice",
                hint=REPAIR,
            )
        size = sum(
            group[i].size * part.num_rows // max(1, sources[i].num_rows)
            for i, part in zip(output.inputs, mine, strict=True)
        )
        for start, end in file_bounds(rows.num_rows, size, target_bytes):
            made.append(write_log_file(root.store, rows.slice(start, end - start), group[0].hour))
        count += rows.num_rows
    if count != sum(source.num_rows for source in sources):
        raise CorruptTable(f"log files of {group[0].hour} hold rows of no partition")
    return made


def _sorted(rows: pa.Table) -> pa.Table:
    by = [("partition", "ascending"), ("offset", "ascending")]
    order = pc.sort_indices(rows.select(["partition", "offset"]), by)
    return rows.combine_chunks().take(order)


def _once(rows: pa.Table) -> bool:
    """Whether the offsets of each partition rise; a gap is what another engine has deleted."""
    partitions, offsets = rows["partition"].to_numpy(), rows["offset"].to_numpy()
    same = partitions[1:] == partitions[:-1]
    return bool(np.all(offsets[1:][same] > offsets[:-1][same]))
