"""Upkeep of the queue's tables by delta-rs, outside every commit path.

The commits are the queue's own; delta-rs only reads them and writes a checkpoint, so that a table
opens in the time of the commits since then. Called by the one owner of the table's upkeep: the
elected leader, or the owner of the shard. Two at once would write the same file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from lakequeue.errors import StorageUnavailable
from lakequeue.records import Version
from queue_tables.delta.counting import delete_counted
from queue_tables.delta.snapshot import write_down_what_counts
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import commit_versions
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import GROUP_OFFSETS


def checkpoint_table(root: QueueRoot, table_path: str) -> Version:
    """Write a Delta checkpoint of the table at its newest version; that version.

    `table_path` is relative to the root. Raises `FileNotFoundError` if there is no table,
    `StorageUnavailable` if delta-rs fails: the table is as it was, try at the next occasion.
    """
    return _checkpoint(root, table_path)[1]


def trim_table(root: QueueRoot, table_path: str, keep_hours: int = 1) -> Version:
    """Remove what a table that is rewritten whole leaves behind; the version checkpointed.

    Data files that were replaced more than `keep_hours` ago go, and commit files older than the
    table's `delta.logRetentionDuration` that a checkpoint stands for. Only for tables that nobody
    tails (`group_offsets`): commits of the others are what their readers live by. Raises as
    `checkpoint_table` does.
    """
    if table_path != GROUP_OFFSETS.name:
        raise ValueError(f"{table_path} is tailed: its commits are not to be removed")
    with translated(table_path):
        # Dry: delta-rs would put two commits of its own into the table, not durable ones.
        replaced = opened(root, table_path).vacuum(
            retention_hours=keep_hours, dry_run=True, enforce_retention_duration=False
        )
    own = TableLog(root.store, table_path).open()
    for path in replaced:
        if path not in own.files:  # another engine may have taken out what still counts
            root.store.delete(f"{table_path}/{path}")
    # A checkpoint that is not durable must not be all that is left of the commits.
    table, version = _checkpoint(root, table_path)
    if not own.is_settled:
        # Else only the commits tell what of the checkpoint counts.
        write_down_what_counts(root.store, table_path, version)
    with translated(table_path):
        table.cleanup_metadata()
    delete_counted(root.store, table_path, version)
    return version


def opened(root: QueueRoot, table_path: str) -> DeltaTable:
    """The table as delta-rs sees it, at the newest version that is there now.

    A listing that is made while others commit may have a version and not the one before it, which
    delta-rs takes for a damaged log. What is there before its listing begins is in that listing. So
    a listing of ours goes first, and names the version up to which delta-rs looks. Raises
    `FileNotFoundError` if there is no table.
    """
    return _opened(root, table_path, _newest(root, table_path))


def _opened(root: QueueRoot, table_path: str, newest: Version | None) -> DeltaTable:
    return DeltaTable(f"{root.uri}/{table_path}", version=newest)


def _newest(root: QueueRoot, table_path: str) -> Version | None:
    """The newest commit; None if a checkpoint is all there is. Raises `FileNotFoundError`."""
    if versions := commit_versions(root.store, table_path):
        return versions[-1]
    if not root.store.names(f"{table_path}/_delta_log"):
        raise FileNotFoundError(f"no Delta table at {table_path}")
    return None


@contextmanager
def translated(table_path: str) -> Iterator[None]:
    """delta-rs's errors as `StorageUnavailable`."""
    try:
        yield
    except (DeltaError, OSError) as error:
        raise StorageUnavailable(
            f"upkeep of {table_path} failed: {error}", hint="it is tried again later"
        ) from error


def _checkpoint(root: QueueRoot, table_path: str) -> tuple[DeltaTable, Version]:
    newest = _newest(root, table_path)
    with translated(table_path):
        table = _opened(root, table_path, newest)
        table.create_checkpoint()
        version = Version(table.version())
    make_checkpoint_durable(root, table_path, version)
    return table, version


def make_checkpoint_durable(root: QueueRoot, table_path: str, version: Version) -> None:
    """Whoever deletes what a checkpoint stands for calls this first."""
    # delta-rs fsyncs nothing. Until this is done a power cut may leave a torn checkpoint, which
    # a reader skips as long as the commits it stands for are there.
    if root.store.local_path is None:
        return
    folder = root.store.local_path / table_path / "_delta_log"
    for path in (*folder.glob(f"{version:020d}.checkpoint*.parquet"), folder / "_last_checkpoint"):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    root.store.make_durable(f"{table_path}/_delta_log")
