"""What is wrong with a table of the queue, in sentences: what happened, and what to do.

Commits of other engines leave a mark (`guard.FOREIGN_TXN`), which costs nothing to look at. Only a
table that has one which is not settled is looked through.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass

from lakequeue.clock import boot_seconds
from lakequeue.errors import (
    CorruptTable,
    LakequeueError,
    RootUnusable,
    SchemaDrift,
    StorageUnavailable,
    TailLost,
)
from queue_tables.delta.actions import Commit, commit_path
from queue_tables.delta.columns import Table
from queue_tables.delta.commit_json import parse
from queue_tables.delta.declared import verify_schema
from queue_tables.delta.guard import FEATURE, REPAIRED_TXN, features, is_guarded
from queue_tables.delta.store import Store
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import commit_versions
from queue_tables.log.row_groups import is_own
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import LOG, TABLES

REMEDY = "lakequeue repair tells what it would do; with --execute it does it"
_MOST_TOLD = 3
_MOST_LOOKED = 1_000
"""Commits of a table that are looked through for those of others."""
_FRESH_S = 5.0


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is wrong with a table."""

    table: str
    """Relative to the root."""
    what: str
    remedy: str
    stops: bool
    """The queue cannot use the table as it is; else it goes on."""

    def __str__(self) -> str:
        return f"{self.table}: {self.what}; {self.remedy}"


def table_paths(root: QueueRoot) -> dict[str, Table]:
    """Every table of the root, shards included, relative to it."""
    found = {
        name: table
        for name, table in TABLES.items()
        if not table.sharded and (not table.when_needed or root.is_table(name))
    }
    for kind in ("inbox", "journal"):
        found |= {f"{kind}/{shard}": TABLES[kind] for shard in root.shards(kind)}
    return found


def troubles_of(store: Store, path: str, declared: Table) -> list[Trouble]:
    """What is wrong with one table; [] if nothing is.

    Raises `FileNotFoundError` and storage errors.
    """
    log = TableLog(store, path, keep_files=False, pass_torn=declared.sharded)
    try:
        log.open()
    except (SchemaDrift, CorruptTable) as damage:
        return [_stopped(path, damage)]
    return [*_torn(log), *judged(log, declared)]


def _torn(log: TableLog) -> list[Trouble]:
    """Of a shard: its commits that cannot be read."""
    waits = log.path.startswith("inbox/")
    then = (
        "the records behind it wait"
        if waits
        else "its facts are read from the data file that it brought, and are not folded"
    )
    return [
        Trouble(log.path, f"{why.removeprefix(f'{log.path}: ')}; {then}", REMEDY, stops=False)
        for _, why in sorted(log.torn.items())
    ]


def judged(log: TableLog, declared: Table) -> list[Trouble]:
    """What is wrong with an opened table."""
    path = log.path
    try:
        verify_schema(log, declared)
    except SchemaDrift as damage:
        return [_stopped(path, damage)]
    found: list[Trouble] = []
    if foreign := foreign_commits(log):
        found.append(Trouble(path, told_of(foreign), REMEDY, stops=False))
    elif not log.is_settled and min(commit_versions(log.store, path)) > log.foreign:
        what = f"commits of other engines up to version {log.foreign}, which are cleaned up"
        found.append(Trouble(path, f"{what}, do not count", REMEDY, stops=False))
    if not is_guarded(log.protocol):
        what = "every engine can write it: the guard is missing, and comes with the next commit"
        found.append(Trouble(path, what, REMEDY, stops=False))
    if extra := features(log.protocol) - {FEATURE}:
        what = f"files or columns depend on {', '.join(sorted(extra))}, which is not the queue's"
        found.append(Trouble(path, what, REMEDY, stops=False))
    return found


def _stopped(path: str, damage: LakequeueError) -> Trouble:
    return Trouble(path, damage.detail.removeprefix(f"{path}: "), damage.hint, stops=True)


def foreign_commits(log: TableLog) -> list[Commit]:
    """The commits of other engines that are not settled, rising; none from before the guard.

    Empty commits of theirs are left out: they have done nothing.
    """
    if log.is_settled:
        return []
    start = log.txns.get(REPAIRED_TXN, -1)
    found = []
    # Counted back from the newest foreign one: the queue's own go on behind it.
    versions = [v for v in commit_versions(log.store, log.path) if start < v <= log.foreign]
    for version in versions[-_MOST_LOOKED:]:
        try:
            commit = parse(version, log.store.get(commit_path(log.path, version)))
        except FileNotFoundError:
            continue  # cleaned up meanwhile
        if commit.foreign and commit.has_effect:
            found.append(commit)
    return found


def told_of(commits: list[Commit]) -> str:
    """What foreign commits did, for people. Pure."""
    verb = "is not the queue's, and does" if len(commits) == 1 else "are not the queue's, and do"
    return f"{named(commits)} {verb} not count"


def named(commits: list[Commit]) -> str:
    """Foreign commits by version, engine and operation. Pure."""
    said = [f"version {c.version} ({c.told}{_effect(c)})" for c in commits[-_MOST_TOLD:]]
    more = len(commits) - len(said)
    ending = f" and {more} more" if more > 0 else ""
    return f"{', '.join(said)}{ending}"


def _effect(commit: Commit) -> str:
    parts = []
    if commit.adds or commit.removes:
        parts.append(f"{len(commit.removes)} files out, {len(commit.adds)} in")
    if commit.metadata:
        parts.append("schema or properties")
    if commit.protocol:
        parts.append("protocol")
    if commit.faults:
        parts.append(f"what makes no sense, {commit.faults[0]}")
    return f": {', '.join(parts)}" if parts else ""


class TablesWatch:
    """What is wrong with the tables that are not shards, and with shards that this process has met
    damaged (`QueueRoot.suspects`), asked again and again. Thread-safe.

    Costs one failed read a table, every few seconds at most, as long as nothing happens.
    """

    def __init__(self, root: QueueRoot, clock: Callable[[], float] = boot_seconds) -> None:
        self._root = root
        self._store = root.store
        self._clock = clock
        self._lock = threading.Lock()
        self._handles: dict[str, TableLog] = {}
        self._looked_at = float("-inf")
        self._found: list[Trouble] = []

    def troubles(self) -> list[Trouble]:
        """As of a few seconds ago; what is known while storage is away."""
        with self._lock:
            if self._clock() - self._looked_at >= _FRESH_S:
                with contextlib.suppress(StorageUnavailable, RootUnusable):
                    self._found = [t for name in TABLES for t in self._look(name)]
                    self._found += [
                        t for path in list(self._root.suspects) for t in self._suspect(path)
                    ]
                self._looked_at = self._clock()
            return self._found

    def told(self) -> list[dict[str, str]]:
        """The same as the `warnings` of `/readyz`."""
        return [{"code": "damaged_table", "detail": str(trouble)} for trouble in self.troubles()]

    def _look(self, name: str) -> list[Trouble]:
        if TABLES[name].sharded:
            return []
        try:
            handle = self._handles.get(name)
            if handle is None:
                handle = TableLog(self._store, name, keep_files=False).open()
                self._handles[name] = handle
            handle.refresh()
            return judged(handle, TABLES[name])
        except FileNotFoundError:
            return []  # not made yet
        except (SchemaDrift, CorruptTable) as damage:
            self._handles.pop(name, None)
            return [_stopped(name, damage)]
        except TailLost:
            self._handles.pop(name, None)
            return []

    def _suspect(self, path: str) -> list[Trouble]:
        """Of a shard that a reader of this process has met damaged: until it is not any more."""
        try:
            found = troubles_of(self._store, path, TABLES[path.partition("/")[0]])
        except FileNotFoundError:
            found = []
        if not found:
            self._root.suspects.pop(path, None)
        return found


def _files_of_others(store: Store) -> list[Trouble]:
    """Files of the log from before it was guarded: read with care, and better written anew."""
    try:
        files = TableLog(store, LOG.name).open().files
    except (FileNotFoundError, SchemaDrift, CorruptTable):
        return []  # said already
    foreign = [path for path in files if not is_own(path)]
    if not foreign:
        return []
    what = f"{len(foreign)} files were written by another engine, {foreign[0]} among them"
    return [Trouble(LOG.name, what, REMEDY, stops=False)]


def look(root: QueueRoot, *, shards: bool = True) -> list[Trouble]:
    """What is wrong with the tables of a root, the most serious first.

    A shard that is removed meanwhile is no trouble.
    """
    found: list[Trouble] = []
    for path, declared in table_paths(root).items():
        if declared.sharded and not shards:
            continue
        try:
            found += troubles_of(root.store, path, declared)
        except FileNotFoundError:
            continue
        except CorruptTable:
            if root.is_table(path):
                raise
    found += _files_of_others(root.store)
    return sorted(found, key=lambda trouble: not trouble.stops)
