"""Copies a queue to another root, as far as it is ordered. The rules: `jobs.copies.mirror_rules`.

The source is read in one order, groups, `log`, topics, and the replica written in another, topics,
`log`, groups. So the replica never knows a position beyond its records, nor a record of an unknown
topic, wherever a run dies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyarrow as pa
import structlog

from jobs.copies.mirror_rules import MirrorFile, MirrorPlan, ends_after, plan_mirror
from lakequeue.errors import CommitConflict, CorruptTable, TailLost
from lakequeue.records import Offset, Version
from lakequeue.steps import Step, reach
from queue_tables.delta.actions import Action, Add, Txn
from queue_tables.delta.columns import Table
from queue_tables.delta.declared import verify_schema
from queue_tables.delta.maintenance import ERASED_INFO
from queue_tables.delta.table import TableLog
from queue_tables.files.parquet import read_data_file, write_data_file
from queue_tables.groups.facts import States
from queue_tables.groups.state import read_group_state
from queue_tables.log.index import PartitionKey
from queue_tables.log.reader import LogReader
from queue_tables.log.writer import write_log_file
from queue_tables.replica import (
    MIRRORED,
    PROMOTED,
    ReplicaTable,
    commit_groups,
    copy_path,
    new_run,
    removed,
    shut_out,
)
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import OFFSETS_TXN, next_offsets_in, offset_mark
from queue_tables.schema.schemas import GROUP_OFFSETS, LOG, TOPICS
from queue_tables.upkeep.clean_up import (
    GRACE_HOURS,
    checkpoint_if_due,
    clean_commits,
    delete_removed,
    vacuum_table,
)

log = structlog.get_logger("mirror")

CHECKPOINT_EVERY = 100
"""Commits of a table of the replica between two checkpoints."""
_ATTEMPTS = 20
_YOUNG_MS = 3_600_000
"""Far below the grace of vacuum."""
_GROUPS_GRACE_HOURS = 1
"""As in a queue: whoever reads the groups of a replica is not to lose the file under its hands."""
_COPIERS = 4


@dataclass(slots=True)
class MirrorReport:
    """What a run has done, or would do."""

    version: int = -1
    """Of the source's `log`: how far the replica goes now."""
    records: int = 0
    """New ones."""
    files_copied: int = 0
    bytes_copied: int = 0
    files_removed: int = 0
    commits: int = 0
    """To `log`."""
    groups: bool = False
    """Whether positions have moved."""


class TableState(Protocol):
    """What a snapshot says of a table: a `TableLog`, or what it would have been."""

    @property
    def version(self) -> Version:
        """Of the source's table: how far a replica goes that has this."""
        ...

    @property
    def txns(self) -> Mapping[str, int]:
        """Application id → version."""
        ...

    @property
    def files(self) -> Mapping[str, Add]:
        """Path → file; a path may be one of `SourceSnapshot.pieces`."""
        ...


@dataclass(frozen=True, slots=True)
class Piece:
    """Some of the rows of a file, where a snapshot goes through it."""

    path: str
    """The file in the source's table."""
    keep: Callable[[pa.Table], pa.Table]
    """Its rows → those within the snapshot, in their order."""
    parts: Mapping[PartitionKey, tuple[Offset, Offset]] = field(default_factory=dict)
    """Of `log`: lowest and highest offset of each partition in them."""


@dataclass(frozen=True, slots=True)
class SourceSnapshot:
    """The source as of one moment, or nearly: see the module."""

    states: States
    epoch_txn: int
    """Of `group_offsets`."""
    log: TableState
    topics: TableState
    pieces: Mapping[str, Piece] = field(default_factory=dict)
    """`<table>/<path>` → what stands for that file of `log` or `topics`."""


def take_source_snapshot(source: QueueRoot) -> SourceSnapshot:
    """Read the source in the order that makes it a snapshot; durable, so that no power cut undoes
    it.
    """
    states = read_group_state(source).states
    offsets = TableLog(source.store, GROUP_OFFSETS.name, keep_files=False).open()
    log, topics = (opened(source, declared) for declared in (LOG, TOPICS))
    return SourceSnapshot(states, offsets.txns.get(OFFSETS_TXN, 0), log, topics)


def opened(source: QueueRoot, declared: Table) -> TableLog:
    """The newest version of a table to copy from, verified and durable."""
    table = TableLog(source.store, declared.name).open()
    verify_schema(table, declared)
    table.make_durable()
    return table


class Mirror:
    """Brings one replica to where its source is. One thread; other runs may do the same."""

    def __init__(
        self,
        source: QueueRoot,
        replica: QueueRoot,
        step_bytes: int,
        take: Callable[[QueueRoot], SourceSnapshot] = take_source_snapshot,
    ) -> None:
        self._take = take
        self._source = source
        self._replica = replica
        self._step_bytes = step_bytes
        self._run = new_run()
        self._copied: dict[str, Add] = {}
        """Path in the source, with the table → its copy."""
        self._reader = LogReader(source, ("offset",))
        self.report = MirrorReport()

    def run(self) -> MirrorReport:
        """One run. Raises `ReplicaPromoted`; what the source keeps rewriting is tried again.

        Raises `CorruptTable` if the source names a file that is not there, however often it looks.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            snapshot = self._take(self._source)
            reach(Step.MIRROR_CUT)
            try:
                self._topics(snapshot)
                self._log(snapshot)
                self._groups(snapshot)
            except (CommitConflict, TailLost, FileNotFoundError) as other:
                # Another run was faster, perhaps long ago, or the source has deleted files of this
                # snapshot meanwhile.
                log.info("mirror.restarted", why=str(other))
                if attempt < _ATTEMPTS:
                    continue
                if isinstance(other, FileNotFoundError):
                    raise CorruptTable(
                        f"a file of this cut of {self._source.uri} is gone: {other}",
                        hint="restore it from a backup; of an earlier time, it was deleted since: "
                        "give a later one",
                    ) from other
                raise
            break
        return self.report

    # -- topics -----------------------------------------------------------------------------------

    def _topics(self, snapshot: SourceSnapshot) -> None:
        table = ReplicaTable(self._replica, TOPICS.name, self._source.queue_id)
        copies = table.copies
        added = [add for path, add in snapshot.topics.files.items() if path not in copies]
        gone = [add for path, add in copies.items() if path not in snapshot.topics.files]
        if table.mark >= snapshot.topics.version and table.mark < PROMOTED:
            return
        actions: list[Action] = [*removed(gone, _now_ms()), *self._copy(snapshot, TOPICS, added)]
        actions += table.foreign(snapshot.topics.txns)
        table.commit(actions, snapshot.topics.version, {})
        reach(Step.MIRROR_TOPICS_COMMITTED)

    # -- log --------------------------------------------------------------------------------------

    def _log(self, snapshot: SourceSnapshot) -> None:
        table = ReplicaTable(self._replica, LOG.name, self._source.queue_id)
        if snapshot.log.version < table.aim and table.mark < PROMOTED:
            raise CommitConflict("another run has gone further", stored="no", commits=())
        self.report.version = int(snapshot.log.version)
        if table.mark == snapshot.log.version:
            return
        plan = plan_of(snapshot, self._reader, table, self._step_bytes)
        for n, step in enumerate(plan.appends, 1):
            last = n == len(plan.appends)
            adds = self._copy(snapshot, LOG, [snapshot.log.files[file.path] for file in step])
            reach(Step.MIRROR_DATA_WRITTEN)
            # The watermarks of the source come with its last records; before that, of the
            # partitions alone, as far as these files go.
            marks = table.foreign(snapshot.log.txns) if last else _marks(step)
            rows = sum(b - a + 1 for file in step for a, b in file.parts.values())
            whole = last and not plan.exchanges
            table.commit([*adds, *marks], snapshot.log.version, {"rows": rows}, whole=whole)
            self.report.commits += 1
            self.report.records += rows
            reach(Step.MIRROR_ROWS_COMMITTED)
        if plan.exchanges or not plan.appends:
            self._exchange(snapshot, table, plan)

    def _exchange(self, snapshot: SourceSnapshot, table: ReplicaTable, plan: MirrorPlan) -> None:
        """The last commit: from here on the replica's files are those of the source."""
        before = _ends(table.log)
        adds = self._copy(snapshot, LOG, [snapshot.log.files[file.path] for file in plan.put])
        reach(Step.MIRROR_DATA_WRITTEN)
        copies = table.copies
        gone = removed([copies[path] for path in plan.take], _now_ms())
        marks = table.foreign(snapshot.log.txns)
        info = {ERASED_INFO: True} if plan.exchanges else {}
        table.commit([*gone, *adds, *marks], snapshot.log.version, info)
        after = ends_after(plan.put)
        self.report.records += sum(max(0, end - before.get(k, 0)) for k, end in after.items())
        self.report.files_removed += len(gone)
        self.report.commits += 1
        reach(Step.MIRROR_EXCHANGED)

    def _copy(self, snapshot: SourceSnapshot, declared: Table, adds: Sequence[Add]) -> list[Add]:
        """Copies of these files in the replica, durable; no commit names them yet."""
        table = declared.name
        # A copy that waited for long may have been vacuumed; one made since the table was opened
        # meets the vacuum as a conflict.
        young = _now_ms() - _YOUNG_MS
        self._copied = {p: a for p, a in self._copied.items() if a.modification_time > young}
        missing = [add for add in adds if f"{table}/{add.path}" not in self._copied]

        def copy(add: Add) -> None:
            path, made = copy_path(add.path, self._run), add
            piece = snapshot.pieces.get(f"{table}/{add.path}")
            if piece is None and add.deletion_vector is not None:
                # It stands beside the file, and is not copied: the rows that are left are.
                piece = Piece(add.path, lambda rows: rows)
            if piece is not None:
                made = self._cut_out(piece, declared, add, path)
            else:
                data = self._source.store.get(f"{table}/{add.path}")
                self._replica.store.put(f"{table}/{path}", data)
            self._copied[f"{table}/{add.path}"] = replace(
                made, path=path, modification_time=_now_ms(), data_change=True
            )

        with ThreadPoolExecutor(_COPIERS, thread_name_prefix="mirror") as pool:
            list(pool.map(copy, missing))
        self.report.files_copied += len(missing)
        self.report.bytes_copied += sum(add.size for add in missing)
        return [self._copied[f"{table}/{add.path}"] for add in adds]

    def _cut_out(self, piece: Piece, declared: Table, add: Add, path: str) -> Add:
        source, vector = self._source.store, add.deletion_vector
        rows = piece.keep(read_data_file(source, declared.name, piece.path, vector=vector))
        store = self._replica.store
        if declared is LOG:
            return write_log_file(store, rows, add.partition_values["hour"] or "", path=path)
        return write_data_file(store, declared.name, rows, {}, declared, path)

    # -- groups -----------------------------------------------------------------------------------

    def _groups(self, snapshot: SourceSnapshot) -> None:
        self.report.groups = commit_groups(
            self._replica,
            self._source.queue_id,
            snapshot.states,
            snapshot.log.version,
            snapshot.epoch_txn,
            _now_ms(),
        )
        if self.report.groups:
            reach(Step.MIRROR_GROUPS_COMMITTED)


def plan_of(
    snapshot: SourceSnapshot, reader: LogReader, table: ReplicaTable | None, step_bytes: int
) -> MirrorPlan:
    """What is missing in the replica's `log`; `table` None: there is no replica yet."""
    copies = {} if table is None else table.copies
    added = []
    for path, add in snapshot.log.files.items():
        if path not in copies:
            piece = snapshot.pieces.get(f"{LOG.name}/{path}")
            parts = reader.parts(path) if piece is None else piece.parts
            added.append(MirrorFile(path, add.size, parts))
    gone = [path for path in copies if path not in snapshot.log.files]
    return plan_mirror(added, gone, {} if table is None else _ends(table.log), step_bytes)


def keep_up(replica: QueueRoot, grace_hours: int) -> int:
    """Look after the tables: checkpoints, commits behind them, files no version needs; how many.

    Files that were replaced (erased records among them) go after `grace_hours`.
    """
    for name in MIRRORED:
        checkpoint_if_due(replica, name, CHECKPOINT_EVERY)
        clean_commits(replica, name, _now_ms())
    deleted = delete_removed(replica, GROUP_OFFSETS.name, _GROUPS_GRACE_HOURS)
    deleted += delete_removed(replica, LOG.name, grace_hours)
    # What runs that died have copied. Not sooner: another run may be about to commit.
    grace_hours = max(GRACE_HOURS, grace_hours)
    return deleted + vacuum_table(replica, LOG.name, grace_hours, dry_run=False).files


def promote(replica: QueueRoot, source_id: str, *, incomplete: bool = False) -> None:
    """Make the replica a queue of its own. Killed anywhere, it is a replica or a queue.

    Raises `InvalidRequest` if it is on a long way, unless `incomplete`: then nothing is done, and
    its mirror may go on.
    """
    # `log` comes first, for it is judged. Until the others follow, a run may bring newer topics, or
    # positions of the snapshot that `log` has.
    for name in (LOG.name, TOPICS.name, GROUP_OFFSETS.name):
        shut_out(replica, name, source_id, whole=name == LOG.name and not incomplete)
        reach(Step.MIRROR_FENCED)
    replica.promote()
    reach(Step.MIRROR_PROMOTED)


def _ends(table: TableLog) -> dict[PartitionKey, int]:
    return {
        PartitionKey(key.topic_id, key.partition): end
        for key, end in next_offsets_in(table.txns).items()
    }


def _marks(files: Iterable[MirrorFile]) -> list[Txn]:
    ends = ends_after(files)
    return [Txn(offset_mark(key.topic_id, key.partition), end) for key, end in ends.items()]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
