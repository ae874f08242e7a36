"""Seals the shards of processes that are gone, so that they can be done with.

A seal is safe at any time: an owner that lives after all is refused at its next commit, opens a
new shard, and loses nothing. So the rule here only has to be right in the long run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import structlog

from lakequeue.errors import LakequeueError
from lakequeue.records import ShardName, Stamp
from queue_tables.root import QueueRoot, ShardKind
from queue_tables.shards import SEALED, STAMP_TXN, node_of, seal_shard
from queue_tables.table import TableLog

log = structlog.get_logger("sealing")


def abandoned(shards: Iterable[ShardName], live_nodes: Collection[str]) -> set[ShardName]:
    """The shards that no process owns any more (pure).

    A node owns at most one shard, its newest: the name ends in the time of its creation.
    """
    newest: dict[str, ShardName] = {}
    for shard in sorted(shards):
        newest[node_of(shard)] = shard
    return {s for s in shards if node_of(s) not in live_nodes or s != newest[node_of(s)]}


class Sealer:
    """Remembers what was seen abandoned, and what is sealed."""

    def __init__(self, root: QueueRoot, kind: ShardKind) -> None:
        self._root = root
        self._kind = kind
        self._suspected: set[ShardName] = set()
        self.sealed: set[ShardName] = set()
        """Known to take no more rows."""

    def look(self, live_nodes: Collection[str], done: Mapping[ShardName, Stamp]) -> None:
        """Seal what was abandoned at the last look already, and is done to its end.

        Twice, because a shard exists a moment before its owner is registered.
        """
        shards = self._root.shards(self._kind)
        self.sealed &= set(shards)
        now = abandoned(shards, live_nodes) - self.sealed
        for shard in now & self._suspected:
            try:
                self._seal(shard, done.get(shard, Stamp(0)))
            except (FileNotFoundError, LakequeueError) as error:
                # It is still there at the next look.
                log.warning("not_sealed", shard=shard, why=str(error))
        self._suspected = now

    def _seal(self, shard: ShardName, done: Stamp) -> None:
        path = f"{self._kind}/{shard}"
        table = TableLog(self._root.store, path, keep_files=False).open()
        if not table.configuration.get(SEALED):
            if table.txns.get(STAMP_TXN, 0) > done:
                return
            seal_shard(self._root, self._kind, shard)
            log.info("sealed", kind=self._kind, shard=shard)
        self.sealed.add(shard)
