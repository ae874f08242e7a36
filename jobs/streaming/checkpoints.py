"""Delta checkpoints of the tables that a leader commits to, outside the commit path."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from lakequeue.errors import StorageUnavailable
from lakequeue.records import Version
from queue_tables.root import QueueRoot
from queue_tables.upkeep.delta_rs import checkpoint_table

log = structlog.get_logger("upkeep")


class Checkpoints:
    """Checkpoints one table every so many commits; the first time as soon as it is due."""

    def __init__(
        self,
        root: QueueRoot,
        table_path: str,
        every: int,
        checkpoint: Callable[[QueueRoot, str], Version] = checkpoint_table,
    ) -> None:
        self._root = root
        self._path = table_path
        self._every = every
        self._checkpoint = checkpoint
        self._last = newest_checkpoint(root, table_path)

    def write_if_due(self, version: Version) -> None:
        """Write one if `version` is far enough."""
        if version - self._last < self._every:
            return
        try:
            self._last = self._checkpoint(self._root, self._path)
        except StorageUnavailable as error:
            log.warning("checkpoint.failed", table=self._path, why=error.detail)
            self._last = version  # not at every look: at the next occasion
        else:
            log.debug("checkpoint.written", table=self._path, version=self._last)


def newest_checkpoint(root: QueueRoot, table_path: str) -> Version:
    """The version of the newest checkpoint file; 0 if there is none."""
    names = root.store.names(f"{table_path}/_delta_log")
    return Version(max((int(n[:20]) for n in names if ".checkpoint" in n), default=0))
