"""Copies a queue away while it runs, and back into an empty root: `lakequeue backup`, `restore`.

A backup is a replica (docs/protocols/mirror.md); a restore is a fork of it that has webhooks, too.
So both have the mirror's steps: killed anywhere, the same call goes on.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from jobs import fork as forking
from jobs.command_line.maintenance import Report
from jobs.copies.kept_words import copy_entries, copy_settings
from jobs.copies.mirror_copy import Mirror, SourceSnapshot, keep_up, take_source_snapshot
from jobs.measuring.history import retain_history, save_copied_groups
from lakequeue.clock import Micros, wall_micros
from lakequeue.errors import RootUnusable
from lakequeue.settings import Settings
from queue_tables.delta.store import open_store
from queue_tables.identity import FORMAT_PATH
from queue_tables.log.marks import LogMarks
from queue_tables.replica import ReplicaTable
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import next_offsets_in
from queue_tables.schema.schemas import GROUP_HISTORY, LOG
from queue_tables.upkeep.clean_up import (
    GRACE_HOURS,
    checkpoint_if_due,
    clean_commits,
    delete_removed,
)

_STEP_BYTES = 1 << 30
_MINUTE_US = 60_000_000
_GROUPS_BYTES = 1 << 30
"""Where groups were takes no more; beyond it the oldest go."""
_CHECKPOINT_EVERY = 500
_BEGUN_PATH = "_lakequeue/fork.json"


def backup(source: QueueRoot, to: str, by: str) -> Report:
    """Bring the backup at `to` to where the queue is; made if there is nothing.

    Raises `RootUnusable` if something else is there, or the backup of another queue.
    """
    store = open_store(to)
    if not store.exists(FORMAT_PATH) and store.names(""):
        raise _not_empty(to)
    replica = QueueRoot.replica(to, source)
    # First: where the source is locked, there is never a record without the locks.
    entries = copy_entries(source, replica, by)
    taken: list[tuple[Micros, SourceSnapshot]] = []

    def take(root: QueueRoot) -> SourceSnapshot:
        snapshot = take_source_snapshot(root)
        taken.append((Micros(wall_micros()), snapshot))
        return snapshot

    report = asdict(Mirror(source, replica, _STEP_BYTES, take).run())
    report |= {"entries": entries, "settings": copy_settings(source, replica, by)}
    if report["commits"]:
        as_of, snapshot = taken[-1]
        save_copied_groups(replica, as_of, snapshot.states, snapshot.log.txns)
    return report | {"files_deleted": keep_up(replica, GRACE_HOURS) + _keep_groups(replica)}


def _keep_groups(replica: QueueRoot) -> int:
    """Thin out where groups were; how many files were deleted."""
    table = GROUP_HISTORY.name
    now = Micros(wall_micros())
    retain_history(replica, now, _GROUPS_BYTES, dry_run=False, span_us=_MINUTE_US)
    checkpoint_if_due(replica, table, _CHECKPOINT_EVERY)
    clean_commits(replica, table, now // 1_000)
    return delete_removed(replica, table, GRACE_HOURS)


def restore(source_uri: str, to: str, as_of: str | None, by: str) -> Report:
    """Make a queue of its own at `to` out of the backup (or queue) at `source_uri`.

    Raises `RootUnusable` unless `to` is empty, or what an earlier run of the same call has begun.
    """
    source = QueueRoot.existing(source_uri, replica_too=True)
    _refuse_what_is_there(source, to)
    args = argparse.Namespace(to=to, as_of=as_of or "now", older_groups=True, dry_run=False)
    # Before it is promoted: a queue whose doors were locked is never there without its locks.
    copy = QueueRoot.replica(to, source)
    copied = {
        "entries": copy_entries(source, copy, by),
        "settings": copy_settings(source, copy, by),
    }
    report = forking.fork(Settings(root=source_uri), args, Micros(wall_micros()))
    # Of a run that goes on, the report has only what that run has copied.
    return report | copied | {"records": _records(copy)}


def _refuse_what_is_there(source: QueueRoot, to: str) -> None:
    """Raise `RootUnusable` unless nothing would be lost."""
    store = open_store(to)
    if store.uri == source.uri:
        raise RootUnusable(f"{to} is the backup itself", hint="restore into an empty root")
    if not store.exists(FORMAT_PATH):
        if store.names(""):
            raise _not_empty(to)
        return
    there = QueueRoot.existing(to, replica_too=True)
    if there.replica_of == source.queue_id and (
        store.exists(_BEGUN_PATH) or ReplicaTable(there, LOG.name, source.queue_id).aim < 0
    ):
        return  # a restore that was killed, and no backup that goes on
    mine, theirs = _records(source), _records(there)
    newer = f", {theirs - mine} more than the backup" if theirs > mine else ""
    raise RootUnusable(
        f"{there.uri} is queue {there.queue_id} with {theirs} records ordered{newer}: a restore"
        " overwrites nothing",
        hint="restore into an empty root, look at what is there, and start the services on it",
    )


def _records(root: QueueRoot) -> int:
    """How many have ever been ordered."""
    try:
        return sum(next_offsets_in(LogMarks(root).read()).values())
    except FileNotFoundError:
        return 0


def _not_empty(to: str) -> RootUnusable:
    return RootUnusable(
        f"{to} has files, and is no copy of a queue", hint="give a folder or prefix with nothing"
    )
