"""What is wrong with a table of the queue, in sentences: what happened, and what to do.

Commits of other engines leave a mark (`guard.FOREIGN_TXN`), which costs nothing to look at. Only a
table that has one which is not settled is looked through.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakequeue.errors import CorruptTable, SchemaDrift
from queue_tables.columns import Table
from queue_tables.delta_log import Commit, commit_path, parse
from queue_tables.delta_schema import verify_schema
from queue_tables.guard import FEATURE, REPAIRED_TXN, features, is_guarded
from queue_tables.root import QueueRoot
from queue_tables.schemas import TABLES
from queue_tables.store import Store
from queue_tables.table import TableLog
from queue_tables.tail import commit_versions

REMEDY = "lakequeue repair tells what it would do; with --execute it does it"
_MOST_TOLD = 3


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
    found = {name: table for name, table in TABLES.items() if not table.sharded}
    for kind in ("inbox", "journal"):
        found |= {f"{kind}/{shard}": TABLES[kind] for shard in root.shards(kind)}
    return found


def troubles_of(store: Store, path: str, declared: Table) -> list[Trouble]:
    """What is wrong with one table; [] if nothing is.

    Raises `FileNotFoundError` and storage errors.
    """
    log = TableLog(store, path)
    try:
        log.open()
        verify_schema(log, declared)
    except (SchemaDrift, CorruptTable) as damage:
        detail = damage.detail.removeprefix(f"{path}: ")
        return [Trouble(path, detail, damage.hint, stops=True)]
    found: list[Trouble] = []
    if foreign := foreign_commits(log):
        found.append(Trouble(path, told_of(foreign), REMEDY, stops=False))
    if not is_guarded(log.protocol):
        what = "every engine can write it: the guard is missing, and comes with the next commit"
        found.append(Trouble(path, what, REMEDY, stops=False))
    if extra := features(log.protocol) - {FEATURE}:
        what = f"files or columns depend on {', '.join(sorted(extra))}, which is not the queue's"
        found.append(Trouble(path, what, REMEDY, stops=False))
    return found


def foreign_commits(log: TableLog) -> list[Commit]:
    """The commits of other engines that are not settled, rising; none from before the guard.

    Empty commits of theirs are left out: they have done nothing.
    """
    if log.is_settled:
        return []
    start = log.txns.get(REPAIRED_TXN, -1)
    found = []
    for version in commit_versions(log.store, log.path):
        if start < version <= log.foreign:
            try:
                commit = parse(version, log.store.get(commit_path(log.path, version)))
            except FileNotFoundError:
                continue  # cleaned up meanwhile
            if commit.foreign and has_effect(commit):
                found.append(commit)
    return found


def has_effect(commit: Commit) -> bool:
    """Whether a commit changes files, schema or properties: the start of a vacuum does not."""
    return bool(commit.adds or commit.removes or commit.metadata or commit.protocol)


def told_of(commits: list[Commit]) -> str:
    """What foreign commits did, for people. Pure."""
    said = [f"version {c.version} ({c.told}{_effect(c)})" for c in commits[-_MOST_TOLD:]]
    more = len(commits) - len(said)
    ending = f" and {more} more" if more > 0 else ""
    verb = "is" if len(commits) == 1 else "are"
    return f"{', '.join(said)}{ending} {verb} not the queue's"


def _effect(commit: Commit) -> str:
    parts = []
    if commit.adds or commit.removes:
        parts.append(f"{len(commit.removes)} files out, {len(commit.adds)} in")
    if commit.metadata:
        parts.append("schema or properties")
    if commit.protocol:
        parts.append("protocol")
    return f": {', '.join(parts)}" if parts else ""


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
    return sorted(found, key=lambda trouble: not trouble.stops)
