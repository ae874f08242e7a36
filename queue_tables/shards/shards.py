"""Shards: the tables of one process incarnation each (`inbox/<node>-<boot>`, `journal/…`).

A shard is created by its owner, committed to by its owner alone, and never reopened: after a
restart there is a new one. Others may only *fence* a journal (a taker of partitions) or *seal*
a shard (it takes no more rows, ever). Both are commits, so the owner's next commit meets them.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakequeue.clock import hour_of
from lakequeue.errors import (
    CommitConflict,
    CorruptTable,
    LakequeueError,
    SchemaDrift,
    ShardSealed,
    TailLost,
)
from lakequeue.records import ShardName, Stamp, Version, checked_name
from lakequeue.steps import Step, reach
from queue_tables.delta.actions import Action, Add, Commit, Metadata, Txn, commit_path
from queue_tables.delta.commit_json import parse_or_pass
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.delta.stamps import sound_stamp
from queue_tables.delta.table import TableLog, create_table
from queue_tables.delta.tail import commit_versions
from queue_tables.files.parquet import write_data_file
from queue_tables.root import QueueRoot, ShardKind
from queue_tables.schema.marks import FENCE_TXN, GROUP_TXN, STAMP_TXN
from queue_tables.schema.schemas import TABLES

Fence = tuple[str, str, int, int]
"""(group, topic_id, partition, epoch): facts of that partition below `epoch` are refused."""
SEALED = "lakequeue.sealed"
QUIET = "lakequeue.quiet_s"
"""Table property: seconds that the owner may be quiet before it is taken for gone.

For owners that register nowhere: a Spark query that runs once an hour is not gone.
"""

_DATA_WRITTEN = {"inbox": Step.INGEST_DATA_WRITTEN, "journal": Step.JOURNAL_DATA_WRITTEN}
_COMMITTED = {"inbox": Step.INGEST_COMMITTED, "journal": Step.JOURNAL_COMMITTED}


def shard_path(kind: ShardKind, shard: str) -> str:
    """The table of a shard, relative to the root."""
    return f"{kind}/{shard}"


def newest_stamp(root: QueueRoot, kind: ShardKind, name: ShardName) -> Stamp:
    """Stamp of a shard's newest commit; 0: it has none, or cannot be read as a table."""
    try:
        table = TableLog(root.store, shard_path(kind, name), keep_files=False).open()
    except (CorruptTable, SchemaDrift, FileNotFoundError):
        return Stamp(0)
    return Stamp(table.txns.get(STAMP_TXN, 0))


def node_of(shard: str) -> str:
    """The node whose incarnation a shard is."""
    return shard.rpartition("-")[0]


class ShardWriter:
    """The one committer of a shard. Not thread-safe: it belongs to the group committer."""

    def __init__(self, log: TableLog, kind: ShardKind, name: ShardName) -> None:
        self._log = log
        self._kind = kind
        self._declared = TABLES[kind]
        self._sequence = 0
        self.name = name
        self.spent: dict[str, float] = {}
        """Seconds of the newest append by phase: writing (the data file), committing."""

    @classmethod
    def create(
        cls, root: QueueRoot, kind: ShardKind, node: str, quiet_s: int | None = None
    ) -> ShardWriter:
        """Open a new incarnation for `node`; its table is durable when this returns.

        `quiet_s`: see `QUIET`.
        """
        checked_name(node, "node")
        while True:
            boot = f"{time.time_ns() // 1_000:x}{secrets.token_hex(2)}"
            name = ShardName(f"{node}-{boot}")
            path = shard_path(kind, name)
            properties = dict(TABLES[kind].properties)
            if quiet_s is not None:
                properties[QUIET] = str(quiet_s)
            if create_table(root.store, path, TABLES[kind], properties):
                return cls(TableLog(root.store, path, keep_files=False).open(), kind, name)

    @property
    def version(self) -> Version:
        """The newest version of the shard this process has seen."""
        return self._log.version

    @property
    def path(self) -> str:
        """The table of the shard, relative to the root."""
        return self._log.path

    def append(self, table: pa.Table, stamp: Stamp) -> Version:
        """Commit one group, durable when this returns; rows keep their order.

        `table` has the declared columns without hour, stamp and row. Raises `ShardSealed` (open
        a new incarnation); for a journal `CommitConflict`, whose `commits` hold fences: drop
        what they forbid and append the rest. Storage errors carry `stored`.
        """
        self._refuse_if_sealed()
        began = time.perf_counter()
        rows = _numbered(table, stamp)
        add = write_data_file(
            self._log.store, self.path, rows, {"hour": hour_of(stamp)}, self._declared
        )
        reach(_DATA_WRITTEN[self._kind])
        written = time.perf_counter()
        try:
            version = self._commit(add, rows, stamp)
        except LakequeueError as e:
            if e.stored == "no":
                self._log.store.delete(f"{self.path}/{add.path}")
            raise
        self.spent = {"writing": written - began, "committing": time.perf_counter() - written}
        reach(_COMMITTED[self._kind])
        return version

    def _commit(self, add: Add, rows: pa.Table, stamp: Stamp) -> Version:
        self._sequence += 1
        sequence = self._sequence
        actions: list[Action] = [Txn(GROUP_TXN, sequence), Txn(STAMP_TXN, stamp), add]
        info = {"stamp": stamp, "rows": rows.num_rows, "bytes": _record_bytes(rows)}
        while True:
            try:
                return self._log.commit(actions, info)
            except CommitConflict as conflict:
                # Not foreign: an earlier group of unknown outcome whose put arrived late.
                foreign = [c for c in conflict.commits if GROUP_TXN not in c.txns]
                if not self._may_go_on(foreign):
                    conflict.extra["commits"] = tuple(foreign)
                    raise
            except (CorruptTable, SchemaDrift) as damage:
                # Another's commit, where ours would go. Nobody can go on behind it as it is.
                raise ShardSealed(
                    f"shard {self.name} cannot be continued: {damage.detail}",
                    hint=damage.hint,
                    stored=damage.stored or "no",
                ) from damage
            except TailLost as lost:
                # Asleep for so long that a seal or a fence may have come and been cleaned up.
                raise ShardSealed(
                    f"shard {self.name} went on without this process: {lost.detail}",
                    hint="open a new incarnation and send again",
                    stored=lost.stored,
                ) from lost

    def _refuse_if_sealed(self) -> None:
        # The seal is met as a conflict once; after that this handle is past it, and its next
        # commit would land.
        if self._log.configuration.get(SEALED):
            raise ShardSealed(
                f"shard {self.name} was sealed by another process",
                hint="open a new incarnation and send again",
                stored="no",
            )

    def _may_go_on(self, foreign: Sequence[Commit]) -> bool:
        """True: commit again. False: a fence, for the journal's owner to judge."""
        self._refuse_if_sealed()
        for commit in foreign:
            if commit.appends:
                raise CorruptTable(
                    f"shard {self.name}: version {commit.version} was appended by another process",
                    hint="no process but its owner may append to a shard; find that process",
                    stored="no",
                )
        return not any("fence" in c.info for c in foreign)


def _numbered(table: pa.Table, stamp: Stamp) -> pa.Table:
    count = table.num_rows
    return table.append_column(
        "stamp", pa.repeat(pa.scalar(stamp, pa.int64()), count)
    ).append_column("row", pa.array(range(count), pa.int32()))


def _record_bytes(rows: pa.Table) -> int:
    if "bytes" in rows.column_names:
        return int(pc.sum(rows.column("bytes")).as_py() or 0)
    return int(rows.get_total_buffer_size())


def fence_shard(
    root: QueueRoot, shard: ShardName, fences: Sequence[Fence], kind: ShardKind = "journal"
) -> bool:
    """Forbid the shard's owner all facts below the given epochs. False if it is sealed already.

    Behind a commit that cannot be read the fence stands all the same.
    """
    log = _opened(root, kind, shard)
    info = {"fence": [list(f) for f in fences]}
    while not log.configuration.get(SEALED):
        try:
            log.commit([Txn(FENCE_TXN, log.txns.get(FENCE_TXN, 0) + 1)], info)
        except CommitConflict:
            continue  # the owner was faster; its commit came before the fence
        return True
    log.make_durable()
    return False


def seal_shard(root: QueueRoot, kind: ShardKind, shard: ShardName) -> Stamp:
    """Let the shard take no more rows, ever; the stamp of its last ones. Idempotent."""
    log = _opened(root, kind, shard)
    while not log.configuration.get(SEALED):
        old = log.metadata
        sealed = Metadata(
            id=old.id,
            schema_string=old.schema_string,
            partition_columns=old.partition_columns,
            configuration={**old.configuration, SEALED: "true"},
            name=old.name,
            created_time=old.created_time,
        )
        try:
            log.commit([sealed], {"seal": True})
        except CommitConflict:
            continue
        reach(Step.SEAL_COMMITTED)
    log.make_durable()
    return Stamp(log.txns.get(STAMP_TXN, 0))


def is_sealed(root: QueueRoot, kind: ShardKind, shard: ShardName) -> bool:
    """Whether the shard takes no more rows. Raises `FileNotFoundError` if it was removed."""
    snapshot = load_snapshot(root.store, shard_path(kind, shard), keep_files=False, pass_torn=True)
    return bool(snapshot.configuration.get(SEALED))


def _opened(root: QueueRoot, kind: ShardKind, shard: ShardName) -> TableLog:
    return TableLog(root.store, shard_path(kind, shard), keep_files=False, pass_torn=True).open()


def highest_stamp(root: QueueRoot, kind: ShardKind, node: str) -> Stamp:
    """The newest stamp in that node's shards, 0 if there is none: where its next clock starts."""
    shards = [s for s in root.shards(kind) if node_of(s) == node]
    return Stamp(max((_newest_stamp(root, shard_path(kind, s)) for s in shards), default=0))


def _newest_stamp(root: QueueRoot, path: str) -> int:
    try:
        for version in reversed(commit_versions(root.store, path)):
            commit = parse_or_pass(version, root.store.get(commit_path(path, version)))
            # An odd one, of a foreign writer, must not carry our clock away.
            if (stamp := sound_stamp(commit)) is not None:
                return stamp
        snapshot = load_snapshot(root.store, path, keep_files=False, pass_torn=True)
        return snapshot.txns.get(STAMP_TXN, 0)
    except (FileNotFoundError, CorruptTable):
        if root.is_table(path):
            raise
        return 0  # removed while we looked: all of it is ordered
