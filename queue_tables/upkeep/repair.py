"""Brings a table back that another engine has changed: `lakequeue repair`.

The queue's own commits say what is in a table, and the queue goes by that (`snapshot`). A repair
makes it so for every reader of Delta: files that another engine took out come back while they are
still there, files that it brought go. Where the old files are gone, the rows of the new ones are
written as the queue writes, each offset once. Schema, properties and protocol become the declared
ones. All of it is one commit of the queue, right behind the newest version, without a row that
counts as new: whoever follows the table goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from lakequeue.clock import wall_micros
from lakequeue.errors import CommitConflict, CorruptTable, SchemaDrift, TailLost
from lakequeue.records import ShardName, Stamp
from queue_tables.delta.actions import Action, Add, Metadata, Txn
from queue_tables.delta.columns import Table
from queue_tables.delta.declared import delta_schema
from queue_tables.delta.guard import FEATURE, GUARDED, REPAIRED_TXN, features, unknown_features
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.delta.stamps import LAST_STAMP
from queue_tables.delta.table import TableLog
from queue_tables.files.stats import FileStats
from queue_tables.log.row_groups import is_own
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import FOLDED, WATERMARKS
from queue_tables.schema.schemas import GROUP_OFFSETS, LOG
from queue_tables.shards.shards import SEALED
from queue_tables.upkeep.delta_rs import checkpoint_table
from queue_tables.upkeep.health import foreign_commits, named
from queue_tables.upkeep.normal_files import normal_files
from queue_tables.upkeep.shard_commits import Anew, commits_anew, write_anew

REPAIR_INFO = "repair"


@dataclass
class Repair:
    """What is wrong with a table, and what is done about it."""

    table: str
    steps: list[str] = field(default_factory=list)
    """What to do, in sentences; [] if the table needs nothing."""
    lost: list[str] = field(default_factory=list)
    """Sentences: what cannot be brought back."""
    done: bool = False
    outs: list[Add] = field(default_factory=list)
    """Leave the table."""
    ins: list[Add] = field(default_factory=list)
    """Come back into it."""
    rewrite: list[Add] = field(default_factory=list)
    """Of `outs`: their rows are written anew."""
    gone: list[Add] = field(default_factory=list)
    """Of `outs`: files of the queue that are deleted."""
    rest: list[Action] = field(default_factory=list)
    anew: list[Anew] = field(default_factory=list)
    """Of a shard: commits that are written anew."""


def repair_table(root: QueueRoot, path: str, declared: Table, *, execute: bool) -> Repair:
    """Judge a table and mend it; without `execute` only judge it.

    Safe beside everything that runs, and twice. Raises `FileNotFoundError` if there is no table.
    """
    while True:
        log = TableLog(root.store, path, pass_torn=declared.sharded).open(unreadable_too=True)
        plan = planned(root, log, declared)
        if declared.sharded:
            _plan_shard(root, log, declared, plan)
        if not execute or not plan.steps:
            return plan
        outs = _ids(plan.outs)
        stay = [add for add in log.files.values() if id(add) not in outs]
        fresh = normal_files(root, log, plan.rewrite, stay, declared)
        _count_lost(plan, fresh)
        now_ms = wall_micros() // 1_000
        actions: list[Action] = [
            *plan.rest,
            *(add.removal(now_ms, data_change=False) for add in plan.outs),
            *(replace(add, data_change=False) for add in (*plan.ins, *fresh)),
        ]
        try:
            log.commit(actions, {REPAIR_INFO: plan.steps})
        except (CommitConflict, TailLost):
            for add in fresh:
                root.store.delete(f"{path}/{add.path}")
            continue  # the table moved on: judge it anew
        # Behind the seal: whoever slept over all this goes on in a shard of its own.
        write_anew(root.store, path, plan.anew)
        plan.done = True
        if log.from_v2:
            # Without that feature Spark does not read such a checkpoint.
            checkpoint_table(root, path)
        return plan


def planned(root: QueueRoot, log: TableLog, declared: Table) -> Repair:
    """What is to be done about the opened table."""
    plan = Repair(log.path)
    _plan_files(root, log, plan)
    _plan_foreign_form(log, plan)
    metadata = _declared_metadata(log, declared)
    if metadata != log.metadata:
        plan.steps.append("bring schema and properties back to what this release declares")
    if log.protocol != GUARDED:
        extra = ", ".join(sorted(features(log.protocol) - {FEATURE}))
        plan.steps.append(
            f"switch off {extra} and put the guard back" if extra else "put the guard back"
        )
    if not plan.steps and not log.is_settled:
        what = named(foreign_commits(log)) or f"other engines' commits up to version {log.foreign}"
        plan.steps.append(f"settle {what}: nothing of it is left")
    if plan.steps:
        # With a protocol in it a commit has what it says, and not what the guard would keep.
        # The metadata too: what counts of it may be another than a reader of Delta sees.
        plan.rest += [metadata, GUARDED]
        if log.foreign > log.txns.get(REPAIRED_TXN, -1):
            plan.rest.append(Txn(REPAIRED_TXN, log.foreign))
    return plan


def _plan_shard(root: QueueRoot, log: TableLog, declared: Table, plan: Repair) -> None:
    """A shard with commits that cannot be followed takes no more rows; they are written anew."""
    kind, _, shard = log.path.partition("/")
    done = partial(_done, root, kind, ShardName(shard))
    plan.anew = commits_anew(root.store, log.path, declared, done)
    plan.lost += [one.says for one in plan.anew if one.data is None]
    plan.steps += [one.says for one in plan.anew if one.data is not None]
    if not plan.anew and not unknown_features(log.protocol):
        return
    said = next((a for a in plan.rest if isinstance(a, Metadata)), log.metadata)
    sealed = replace(said, configuration={**said.configuration, SEALED: "true"})
    plan.rest = [sealed, *(a for a in plan.rest if not isinstance(a, Metadata))]


def _done(root: QueueRoot, kind: str, shard: ShardName) -> Stamp:
    """Up to where a shard is ordered or folded."""
    table, marks = (LOG, WATERMARKS) if kind == "inbox" else (GROUP_OFFSETS, FOLDED)
    try:
        txns = TableLog(root.store, table.name, keep_files=False).open().txns
    except (CorruptTable, SchemaDrift):
        return Stamp(LAST_STAMP)  # not known: no stamp is touched
    return marks.read(txns).get(shard, Stamp(0))


def _plan_files(root: QueueRoot, log: TableLog, plan: Repair) -> None:
    """What a reader of Delta sees becomes what counts."""
    seen = load_snapshot(
        root.store, log.path, at=log.version, every_engine=True, pass_torn=bool(log.torn)
    ).files
    own = log.files
    plan.outs = [add for path, add in seen.items() if not _same(own.get(path), add)]
    plan.ins = [add for path, add in own.items() if not _same(seen.get(path), add)]
    gone = [add for add in plan.ins if not root.store.exists(f"{log.path}/{add.path}")]
    if gone:
        # They count until this says that they do not.
        lost = _ids(gone)
        plan.ins = [add for add in plan.ins if id(add) not in lost]
        plan.rewrite = [add for add in plan.outs if add.path not in own]
        plan.outs += gone
        plan.gone = gone
    if not plan.outs and not plan.ins:
        return
    what = named(foreign_commits(log)) or "foreign commits"
    plan.steps.append(f"undo {what}: bring {len(plan.ins)} files back, take {len(plan.outs)} out")
    if gone:
        plan.steps.append(
            f"write the rows of {len(plan.rewrite)} files anew, since {len(gone)} of the queue's"
            f" files are deleted, {gone[0].path} among them"
        )


def _plan_foreign_form(log: TableLog, plan: Repair) -> None:
    """Files from before the guard, by other engines: in order for who reads them with care."""
    if log.path != LOG.name:
        return
    outs = _ids(plan.outs)
    foreign = [
        add
        for path, add in log.files.items()
        if id(add) not in outs and (add.deletion_vector or not is_own(path))
    ]
    if foreign:
        plan.outs += foreign
        plan.rewrite += foreign
        plan.steps.append(f"write the rows of {len(foreign)} files anew that another engine wrote")


def _ids(adds: Iterable[Add]) -> set[int]:
    """To look up tens of thousands: what counts and what a reader of Delta sees are two `Add`s."""
    return {id(add) for add in adds}


def _same(one: Add | None, other: Add) -> bool:
    return one is not None and one.deletion_vector == other.deletion_vector


def _declared_metadata(log: TableLog, declared: Table) -> Metadata:
    own = {k: v for k, v in log.configuration.items() if not k.startswith("delta.")}
    return replace(
        log.metadata,
        schema_string=delta_schema(declared.arrow, declared.meanings),
        partition_columns=declared.partition_by,
        configuration={**dict(declared.properties), **own},
    )


def _count_lost(plan: Repair, fresh: Sequence[Add]) -> None:
    """Say how many rows of deleted files are in no file any more."""
    missing = _rows(plan.gone) - _rows(fresh)
    if missing > 0:
        plan.lost.append(f"{missing} rows are in no file any more")


def _rows(adds: Iterable[Add]) -> int:
    return sum(FileStats(add.stats).records or 0 for add in adds)
