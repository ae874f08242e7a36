"""Checkpoints of the tables that no leader looks after, and the commits behind all checkpoints.

`log`, `rejects` and `group_offsets` are checkpointed by their leaders in the driver's upkeep, the
last of them is also cleaned there. The others are nobody else's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import structlog

from jobs.command_line.maintenance import Report
from lakequeue.clock import Micros
from lakequeue.errors import CorruptTable, SchemaDrift, StorageUnavailable
from lakequeue.records import ShardName, Stamp, Version
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import find_version
from queue_tables.groups.state import read_group_offsets
from queue_tables.log.marks import LogMarks
from queue_tables.root import QueueRoot, ShardKind
from queue_tables.schema.marks import WATERMARKS
from queue_tables.schema.schemas import (
    ACCESS,
    AUDIT,
    GROUP_HISTORY,
    GROUP_OFFSETS,
    GROUP_SETTINGS,
    LOG,
    METRICS,
    REJECTS,
    TOPICS,
)
from queue_tables.shards.shards import shard_path
from queue_tables.upkeep.clean_up import checkpoint_if_due, clean_commits

CHECKPOINT_EVERY = 500
"""Commits of a shard, of `topics`, `metrics` or `group_history`, between two checkpoints."""

log = structlog.get_logger("upkeep")


def upkeep_tables(root: QueueRoot, now: Micros, *, dry_run: bool) -> Report:
    """Look after every table; the report."""
    checkpoints: list[str] = []
    guarded: list[str] = []
    deleted = 0
    for path, below, led in _tables(root):
        try:
            if not dry_run and _put_guard(root, path):
                guarded.append(path)
            if not led and not dry_run and checkpoint_if_due(root, path, CHECKPOINT_EVERY):
                checkpoints.append(path)
            deleted += clean_commits(root, path, now // 1_000, below, dry_run=dry_run)
        except (FileNotFoundError, CorruptTable, SchemaDrift, StorageUnavailable) as error:
            if root.is_table(path):
                # One table that cannot be looked after must not keep the others from it.
                log.warning("upkeep.failed", table=path, why=str(error))
    return {"checkpoints": checkpoints, "deleted": deleted, "guarded": guarded}


def _put_guard(root: QueueRoot, path: str) -> bool:
    """Guard the table if it is not: a shard whose owner still runs an earlier release."""
    return TableLog(root.store, path, keep_files=False).open().put_guard()


def _tables(root: QueueRoot) -> Iterator[tuple[str, Version | None, bool]]:
    """(table, versions below which commits may go, whether a leader checkpoints it)."""
    yield TOPICS.name, None, False
    yield METRICS.name, None, False
    yield GROUP_HISTORY.name, None, False
    yield ACCESS.name, None, False
    yield AUDIT.name, None, False
    yield GROUP_SETTINGS.name, None, False
    yield LOG.name, None, True
    yield REJECTS.name, None, True
    # First how far it is done, then the shard: what comes in between stays.
    yield from _shards(root, "inbox", WATERMARKS.read(LogMarks(root).read()))
    try:
        folded = read_group_offsets(root)[1]
    except (CorruptTable, SchemaDrift) as damage:
        # Without it nothing tells how far a journal is folded: all of it stays.
        log.warning("upkeep.failed", table=GROUP_OFFSETS.name, why=str(damage))
        return
    root.store.make_durable(f"{GROUP_OFFSETS.name}/_delta_log")
    yield from _shards(root, "journal", folded)


def _shards(
    root: QueueRoot, kind: ShardKind, done: Mapping[ShardName, Stamp]
) -> Iterator[tuple[str, Version | None, bool]]:
    for shard in root.shards(kind):
        path = shard_path(kind, shard)
        try:
            yield path, find_version(root.store, path, done.get(shard, Stamp(0))), False
        except (FileNotFoundError, CorruptTable, StorageUnavailable) as error:
            if root.is_table(path):
                log.warning("upkeep.failed", table=path, why=str(error))
