"""Ordered and folded files leave their shards; shards that are done with go as a whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from jobs.maintenance.shard_rules import ShardFacts, done_files, removable
from lakequeue.clock import Micros
from lakequeue.errors import CommitConflict, CorruptTable, TailLost
from lakequeue.records import ShardName, Stamp
from lakequeue.steps import Step, reach
from queue_tables.delta.actions import Add, commit_path
from queue_tables.delta.commit_json import parse
from queue_tables.delta.maintenance import rewrite_files
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import Tail, find_version
from queue_tables.groups.facts import Key, States
from queue_tables.groups.state import journal_news, read_group_offsets
from queue_tables.log.marks import LogMarks
from queue_tables.root import QueueRoot, ShardKind
from queue_tables.schema.marks import BATCH_TXN, STAMP_TXN, WATERMARKS
from queue_tables.schema.schemas import GROUP_OFFSETS
from queue_tables.shards.shard_removal import end_removals, remove_shard
from queue_tables.shards.shards import SEALED, shard_path
from queue_tables.upkeep.clean_up import delete_removed

MARGIN_US = 3_600 * 1_000_000
"""A shard stays this long after its last commit."""
ROW_MARGIN_US: dict[ShardKind, Micros] = {"inbox": 600 * 1_000_000, "journal": MARGIN_US}
"""Rows that are done stay this long after they were written: what reads them has long done so."""
BULK_MARGIN_US = 24 * MARGIN_US
"""Tasks of a bulk writer may still write files for a run whose shard was sealed."""


log = structlog.get_logger("retention")


@dataclass(slots=True)
class ShardReport:
    """What happened to the shards of one kind, or would happen."""

    removed: list[str] = field(default_factory=list)
    files_removed: int = 0
    bytes_removed: int = 0
    shards: int = 0
    """Those that are there, before."""

    def count(self, files: Collection[Add]) -> None:
        """These files go."""
        self.files_removed += len(files)
        self.bytes_removed += sum(add.size for add in files)

    def document(self) -> dict[str, Any]:
        """For the report of the job."""
        return {
            "shards": self.shards,
            "shards_removed": self.removed,
            "files_removed": self.files_removed,
            "bytes_removed": self.bytes_removed,
        }


def retain_shards(root: QueueRoot, kind: ShardKind, now: Micros, *, dry_run: bool) -> ShardReport:
    """Drop what is done with from the shards of one kind. Safe beside everything, and twice."""
    done, held = _done(root, kind)
    report = ShardReport()
    found = _read_all(root, kind, done)
    report.shards = len(found)
    facts = [facts for facts, _ in found.values()]
    whole = removable(facts, now, MARGIN_US, BULK_MARGIN_US, held)
    for shard in whole:
        one, table = found[shard]
        if _waits(root, table, one.done):
            continue
        del found[shard]
        report.removed.append(shard)
        report.count(table.files.values())
        if not dry_run:
            remove_shard(root, kind, shard)
    for one, table in found.values():
        try:
            pending = _pending(root, table, one.done)
        except (FileNotFoundError, TailLost):
            continue  # another run cleans it up, or removes it: next time
        old = done_files(table.files.values(), pending, now, ROW_MARGIN_US[kind])
        report.count(old)
        if not dry_run:
            if old:
                _drop(root, table, old)
            delete_removed(root, table.path)
    if not dry_run:
        report.removed += end_removals(root, kind)
    return report


def _done(root: QueueRoot, kind: ShardKind) -> tuple[Mapping[ShardName, Stamp], set[ShardName]]:
    """How far the shards are ordered or folded, and which of them states still name."""
    if kind == "inbox":
        return WATERMARKS.read(LogMarks(root).read()), set()
    states, folded = read_group_offsets(root)
    # Facts go by this fold: it must not be one that a power cut could undo.
    root.store.make_durable(f"{GROUP_OFFSETS.name}/_delta_log")
    return folded, _named(root, states, folded)


def _named(root: QueueRoot, states: States, folded: Mapping[ShardName, Stamp]) -> set[ShardName]:
    """Shards that takers would fence, or whose last fences are folded nowhere."""
    named = {shard for state in states.values() for shard in state.holders}
    for shard in set(root.shards("journal")) - named:
        path = shard_path("journal", shard)
        try:
            start = find_version(root.store, path, folded.get(shard, Stamp(0)))
            commits = Tail(root.store, path, start, pass_torn=True).poll()
        except (FileNotFoundError, TailLost):
            named.add(shard)  # it moved on, or another run removes it
            continue
        if any(commit.torn for commit in commits):
            named.add(shard)
            continue
        for fence in journal_news(root.store, shard, [c for c in commits if not c.adds]).fences:
            state = states.get(Key(fence.group, fence.topic_id, fence.partition))
            if state is None or fence.epoch > state.highest_epoch:
                # The highest epoch known, and it must not be handed out again.
                named.add(shard)
    return named


def _waits(root: QueueRoot, table: TableLog, done: Stamp) -> bool:
    """Whether a commit has rows that are not done with, whatever the shard says of itself.

    So it is with a stamp that no commit of ours has: it may be below those that are done.
    """
    try:
        commits = Tail(root.store, table.path, find_version(root.store, table.path, done)).poll()
    except (FileNotFoundError, TailLost):
        return True  # another run cleans it up, or removes it: next time
    return any(commit.appends for commit in commits)


def _pending(root: QueueRoot, table: TableLog, done: Stamp) -> set[str]:
    """Files that came in commits above `done`."""
    tail = Tail(root.store, table.path, find_version(root.store, table.path, done))
    return {add.path for commit in tail.poll() for add in commit.adds}


def _read_all(
    root: QueueRoot, kind: ShardKind, done: Mapping[ShardName, Stamp]
) -> dict[ShardName, tuple[ShardFacts, TableLog]]:
    found: dict[ShardName, tuple[ShardFacts, TableLog]] = {}
    for shard in root.shards(kind):
        try:
            found[shard] = _read(root, kind, shard, done.get(shard, Stamp(0)))
        except (FileNotFoundError, CorruptTable) as error:
            # Another run removes it; or it cannot be read, and all of it stays until a repair.
            if root.is_table(shard_path(kind, shard)):
                log.warning("retention.failed", table=shard_path(kind, shard), why=str(error))
    return found


def _read(
    root: QueueRoot, kind: ShardKind, shard: ShardName, done: Stamp
) -> tuple[ShardFacts, TableLog]:
    table = TableLog(root.store, shard_path(kind, shard)).open()
    table.make_durable()
    newest = parse(table.version, root.store.get(commit_path(table.path, table.version)))
    return (
        ShardFacts(
            shard,
            bool(table.configuration.get(SEALED)),
            Stamp(table.txns.get(STAMP_TXN, 0)),
            done,
            newest.timestamp_ms * 1_000,
            table.txns.get(BATCH_TXN),
        ),
        table,
    )


def _drop(root: QueueRoot, table: TableLog, old: list[Add]) -> None:
    """Take files out of the table, and delete them: nobody reads ordered rows of an inbox.

    If we die between the two the next run deletes them (`delete_removed`).
    """
    try:
        rewrite_files(table, old, (), {"retention": True}, data_change=True)
    except CommitConflict:
        return  # another run did it, and deletes them
    reach(Step.RETENTION_SHARD_COMMITTED)
    for add in old:
        root.store.delete(f"{table.path}/{add.path}")
    for hour in {add.path.rpartition("/")[0] for add in old}:
        root.store.remove_folder(f"{table.path}/{hour}")
