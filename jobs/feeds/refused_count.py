"""How many records of a stream were refused and sent to the topic for them: as its commits say."""

from __future__ import annotations

import threading

from lakequeue.errors import CorruptTable, TailLost
from lakequeue.records import ShardName, Version
from queue_tables.delta.actions import whole
from queue_tables.delta.tail import Tail
from queue_tables.root import QueueRoot
from queue_tables.shards.bulk import REFUSED, shard_of
from queue_tables.shards.shards import shard_path


class RefusedCount:
    """Follows the shards of one run of a query. Thread-safe."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._tails: dict[ShardName, Tail] = {}
        self._count = 0

    def of(self, query_id: str, run_id: str) -> int:
        """Records refused so far by this run."""
        with self._lock:
            root = QueueRoot.existing(self._root)
            own = shard_of(f"spark-{query_id.replace('-', '')}", run_id.replace("-", ""))
            for name in root.store.names("inbox"):
                if name == own or name.startswith(f"{own}x"):
                    shard = ShardName(name)
                    tail = Tail(root.store, shard_path("inbox", shard), Version(-1))
                    self._count += _read(self._tails.setdefault(shard, tail))
            return self._count


def _read(tail: Tail) -> int:
    try:
        return sum(whole(commit.info.get(REFUSED)) or 0 for commit in tail.poll())
    except (TailLost, CorruptTable):
        # It is only told: nothing is decided by it.
        return 0
