"""Deletes what no version of a table needs: data files, and commits behind a checkpoint."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakequeue.errors import CommitConflict, TailLost
from lakequeue.records import Version
from lakequeue.steps import Step, reach
from queue_tables.delta.actions import checkpoint_part, commit_path
from queue_tables.delta.commit_json import parse
from queue_tables.delta.counting import delete_counted
from queue_tables.delta.maintenance import VACUUM_INFO
from queue_tables.delta.snapshot import (
    checkpoint_versions,
    is_readable_checkpoint,
    load_snapshot,
    write_down_what_counts,
)
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import commit_versions
from queue_tables.files.deletion_vectors import vector_path
from queue_tables.root import QueueRoot
from queue_tables.upkeep.delta_rs import (
    checkpoint_table,
    make_checkpoint_durable,
    opened,
    translated,
)

GRACE_HOURS = 6
"""Removed data files stay this long by default, for readers that opened an earlier version."""
MOST_GRACE_HOURS = 24
"""A table's own record of what it removed reaches back no further (`schemas`, tombstones)."""
KEEP_COMMITS_S = 3_600.0
"""Commits stay this long after a checkpoint stands for them: for those who follow the table."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What was deleted, or would be."""

    files: int = 0
    bytes: int = 0


def vacuum_table(root: QueueRoot, table_path: str, grace_hours: int, *, dry_run: bool) -> Cleaned:
    """Delete data files that left the table, or never came into it, `grace_hours` ago or more.

    Files that no commit names may belong to a writer that sleeps between writing and committing.
    So a commit without actions comes first: such a writer meets it and gives its files up
    (`maintenance.vacuumed`), or its own commit came before and then its files are in the table.
    """
    with translated(table_path):
        table = opened(root, table_path)
        listed = table.vacuum(
            retention_hours=grace_hours, dry_run=True, enforce_retention_duration=False, full=True
        )
    # It also names what was deleted long ago, as long as checkpoints tell of it.
    listed = _existing(root, table_path, listed)
    if not listed:
        return Cleaned()
    own = TableLog(root.store, table_path).open()
    vectors = _vectors(root, own)
    if not dry_run:
        _fence(own, time.time_ns() // 1_000_000 - grace_hours * 3_600_000)
        reach(Step.VACUUM_FENCED)
    count = size = 0
    for path in listed:
        if path in own.files or path in vectors:
            continue
        with contextlib.suppress(FileNotFoundError):  # another run was faster
            size += root.store.size(f"{table_path}/{path}")
            count += 1
        if not dry_run:
            root.store.delete(f"{table_path}/{path}")
            reach(Step.VACUUM_REMOVING)
    if not dry_run:
        for folder in {path.rpartition("/")[0] for path in listed} - {""}:
            root.store.remove_folder(f"{table_path}/{folder}")
    return Cleaned(count, size)


def delete_removed(root: QueueRoot, table_path: str, grace_hours: int = 0) -> int:
    """Delete what commits have taken out of a table, `grace_hours` ago or more; how many.

    Without a grace for tables that nobody reads at an earlier version. Files that no commit has
    named stay: their writer may be about to.
    """
    with translated(table_path):
        removed = opened(root, table_path).vacuum(
            retention_hours=grace_hours, dry_run=True, enforce_retention_duration=False
        )
    # What another engine took out counts, until the table is repaired.
    own = TableLog(root.store, table_path).open().files
    left = [path for path in _existing(root, table_path, removed) if path not in own]
    for path in left:
        root.store.delete(f"{table_path}/{path}")
    return len(left)


def _vectors(root: QueueRoot, own: TableLog) -> set[str]:
    """Files of deletion vectors that data files have; delta-rs takes them for left over.

    Also those that readers of Delta see and that do not count.
    """
    adds = list(own.files.values())
    if not own.is_settled:
        adds += load_snapshot(root.store, own.path, every_engine=True).files.values()
    found = set()
    for vector in (add.deletion_vector for add in adds if add.deletion_vector is not None):
        # One that cannot be read names no file: whoever reads the rows says so.
        with contextlib.suppress(ValueError, IndexError):
            found.add(vector_path(vector))
    return {path for path in found if path is not None}


@dataclass(frozen=True, slots=True)
class Behind:
    """Data files that are there and belong to no newest version; paths relative to the table."""

    removed: list[str]
    """A commit took them out; they wait for vacuum."""
    unnamed: list[str]
    """No commit names them, or none that is remembered: somebody writes them, or died over it."""


def left_behind(root: QueueRoot, table_path: str) -> Behind:
    """What lies in a table's folder beside the files of its newest version."""
    with translated(table_path):
        table = opened(root, table_path)
        removed, listed = (
            table.vacuum(
                retention_hours=0, dry_run=True, enforce_retention_duration=False, full=full
            )
            for full in (False, True)
        )
    removed = _existing(root, table_path, removed)
    own = TableLog(root.store, table_path).open()
    # A file that was committed since delta-rs looked has a name by now.
    unnamed = set(listed) - set(removed) - set(own.files) - _vectors(root, own)
    return Behind(removed, _existing(root, table_path, unnamed))


def _existing(root: QueueRoot, table_path: str, paths: Iterable[str]) -> list[str]:
    """Those of `paths` that are there; one listing a folder."""
    folders: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        folders[path.rpartition("/")[0]].append(path)
    found: list[str] = []
    for folder, some in sorted(folders.items()):
        names = set(root.store.names(f"{table_path}/{folder}" if folder else table_path))
        found += [path for path in some if path.rpartition("/")[2] in names]
    return found


def _fence(table: TableLog, before_ms: int) -> None:
    while True:
        try:
            table.commit([], {VACUUM_INFO: before_ms})
        except (CommitConflict, TailLost):
            continue
        return


def checkpoint_if_due(root: QueueRoot, table_path: str, every: int) -> bool:
    """Checkpoint a table that no leader looks after, `every` commits after the last one.

    Two at once write the same state to the same file, whole: no harm.
    """
    newest = max(commit_versions(root.store, table_path), default=Version(0))
    last = max(checkpoint_versions(root.store, table_path), default=Version(0))
    if newest - last < every:
        return False
    checkpoint_table(root, table_path)
    reach(Step.UPKEEP_CHECKPOINTED)
    return True


def clean_commits(
    root: QueueRoot,
    table_path: str,
    now_ms: int,
    below: Version | None = None,
    keep_s: float = KEEP_COMMITS_S,
    *,
    dry_run: bool = False,
) -> int:
    """Delete commit files that a checkpoint has stood for since `keep_s` or longer; their number.

    `below`: only versions under it (what is not ordered or folded stays, however old). From old to
    new, and never the newest, so that who fell behind notices: a tail, and a handle that slept.
    """
    store, log = root.store, f"{table_path}/_delta_log"
    before_ms = now_ms - int(keep_s * 1_000)
    if not dry_run:
        _write_down_what_counts(root, table_path, before_ms)
    stands = _standing(root, table_path, before_ms)
    if stands is None:
        return 0
    limit = stands if below is None else min(stands, below)
    old = [v for v in commit_versions(store, table_path) if v < limit]
    if dry_run or not old:
        return len(old)
    make_checkpoint_durable(root, table_path, stands)
    for version in old:
        store.delete(commit_path(table_path, version))
        reach(Step.UPKEEP_CLEANING)
    for name in store.names(log):
        part = checkpoint_part(name)
        if part is not None and part[0] < stands:
            store.delete(f"{log}/{name}")
    delete_counted(store, table_path, stands)
    return len(old)


def _write_down_what_counts(root: QueueRoot, table_path: str, before_ms: int) -> None:
    """For the newest checkpoint that may stand for the commits before it, if it has other
    engines' changes."""
    version = next(_committed_by(root, table_path, before_ms), None)
    if version is not None and not is_readable_checkpoint(root.store, table_path, version):
        write_down_what_counts(root.store, table_path, version)


def _standing(root: QueueRoot, table_path: str, before_ms: int) -> Version | None:
    """The newest checkpoint of a version that was committed by then, if it can be read."""
    for version in _committed_by(root, table_path, before_ms):
        if is_readable_checkpoint(root.store, table_path, version):
            return version
    return None


def _committed_by(root: QueueRoot, table_path: str, before_ms: int) -> Iterator[Version]:
    """Versions with a checkpoint that were committed by then, newest first."""
    for version in reversed(checkpoint_versions(root.store, table_path)):
        try:
            made = parse(version, root.store.get(commit_path(table_path, version))).timestamp_ms
        except FileNotFoundError:
            continue  # cleaned up behind a newer one
        if made <= before_ms:
            yield version
