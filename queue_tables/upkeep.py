"""Upkeep of the queue's tables by delta-rs, outside every commit path.

The commits are the queue's own; delta-rs only reads them and writes a checkpoint, so that a table
opens in the time of the commits since then. Called by the one owner of the table's upkeep: the
elected leader, or the owner of the shard. Two at once would write the same file.
"""

from __future__ import annotations

import os

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from lakequeue.errors import StorageUnavailable
from lakequeue.records import Version
from queue_tables.root import QueueRoot


def checkpoint_table(root: QueueRoot, table_path: str) -> Version:
    """Write a Delta checkpoint of the table at its newest version; that version.

    `table_path` is relative to the root. Raises `FileNotFoundError` if there is no table,
    `StorageUnavailable` if delta-rs fails: the table is as it was, try at the next occasion.
    """
    if not root.store.names(f"{table_path}/_delta_log"):
        raise FileNotFoundError(f"no Delta table at {table_path}")
    try:
        table = DeltaTable(f"{root.uri}/{table_path}")
        table.create_checkpoint()
    except (DeltaError, OSError) as error:
        raise StorageUnavailable(f"checkpoint of {table_path} failed: {error}") from error
    version = Version(table.version())
    _make_durable(root, table_path, version)
    return version


def _make_durable(root: QueueRoot, table_path: str, version: Version) -> None:
    # delta-rs fsyncs nothing. Until this is done a power cut may leave a torn checkpoint, which
    # a reader passes over as long as the commits it stands for are there.
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
