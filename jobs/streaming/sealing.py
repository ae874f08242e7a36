"""Seals the shards of processes that are gone, so that they can be done with.

A seal is safe at any time: an owner that lives after all is refused at its next commit, opens a
new shard, and loses nothing. So the rule here only has to be right in the long run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import structlog

from lakequeue.clock import boot_seconds
from lakequeue.errors import LakequeueError
from lakequeue.records import ShardName, Stamp
from queue_tables.delta.table import TableLog
from queue_tables.root import QueueRoot, ShardKind
from queue_tables.schema.marks import STAMP_TXN
from queue_tables.shards.shards import QUIET, SEALED, node_of, seal_shard

log = structlog.get_logger("sealing")

QUIET_S = 30.0


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

    def __init__(
        self, root: QueueRoot, kind: ShardKind, clock: Callable[[], float] = boot_seconds
    ) -> None:
        self._root = root
        self._kind = kind
        self._clock = clock
        self._suspected: dict[ShardName, tuple[float, int]] = {}
        """Since when (boot seconds) it is abandoned and quiet, and its newest stamp."""
        self.sealed: set[ShardName] = set()
        """Known to take no more rows."""

    def seal_abandoned(self, live_nodes: Collection[str], done: Mapping[ShardName, Stamp]) -> None:
        """Seal what is abandoned, quiet for `QUIET_S`, and done to its end (`done`).

        A shard's own word on how long its owner may be quiet (`QUIET`) goes before.

        Not at once: a shard exists a moment before its owner is registered, and an ingest node
        may run without ZooKeeper. One that goes on committing is left alone.
        """
        shards = self._root.shards(self._kind)
        self.sealed &= set(shards)
        now = abandoned(shards, live_nodes) - self.sealed
        for gone in self._suspected.keys() - now:
            del self._suspected[gone]
        for shard in sorted(now):
            try:
                self._judge(shard, done.get(shard, Stamp(0)))
            except (FileNotFoundError, LakequeueError) as error:
                # It is still there at the next look.
                log.warning("seal.failed", shard=shard, why=str(error))

    def _judge(self, shard: ShardName, done: Stamp) -> None:
        path = f"{self._kind}/{shard}"
        table = TableLog(self._root.store, path, keep_files=False).open()
        if table.configuration.get(SEALED):
            self.sealed.add(shard)
            return
        newest, now = table.txns.get(STAMP_TXN, 0), self._clock()
        since, stamp = self._suspected.setdefault(shard, (now, newest))
        if newest != stamp:
            self._suspected[shard] = (now, newest)
        elif newest <= done and now - since >= float(table.configuration.get(QUIET, QUIET_S)):
            seal_shard(self._root, self._kind, shard)
            self.sealed.add(shard)
            log.info("shard.sealed", kind=self._kind, shard=shard)
