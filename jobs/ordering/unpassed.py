"""What stands in `rejects` of a batch that a dead leader left half done, until it is passed.

Mostly that is the first batch of a term. A shard that cannot be read then waits, and all others go
on; its rows come in some later batch, and what is recorded of them is not recorded twice.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from jobs.ordering.reject_rows import Key
from jobs.ordering.rejects import RejectsTable
from lakequeue.errors import CorruptTable, TailLost
from lakequeue.records import ShardName, Stamp
from queue_tables.delta.store import Store
from queue_tables.delta.tail import Tail, find_version
from queue_tables.shards.shards import shard_path

log = structlog.get_logger("order")


class Unpassed:
    """Of one term."""

    def __init__(self, rejects: RejectsTable) -> None:
        self._rejects = rejects
        self._ends: dict[ShardName, Stamp] = {}
        self._above: dict[ShardName, Stamp] = {}
        self._recorded: dict[Key, str | None] | None = None

    def begin(self, plan: Mapping[ShardName, Stamp], above: Mapping[ShardName, Stamp]) -> None:
        """The term begins with that plan, above these watermarks."""
        self._ends = dict(plan)
        self._above = {shard: above.get(shard, Stamp(0)) for shard in plan}
        self._recorded = None

    def recorded(self) -> Mapping[Key, str | None]:
        """Rows that stand there already: their fault, if it is one."""
        if not self._ends:
            return {}
        if self._recorded is None:
            self._recorded = self._rejects.recorded(self._ends, self._above)
        return self._recorded

    def passed(self, watermarks: Mapping[ShardName, Stamp]) -> None:
        """`log` has passed these."""
        for shard, stamp in watermarks.items():
            if stamp >= self._ends.get(shard, stamp + 1):
                del self._ends[shard]
        if not self._ends:
            self._recorded = None


def reaches(store: Store, shard: ShardName, end: Stamp) -> bool:
    """Whether the commits of an inbox shard can be followed up to that stamp."""
    path = shard_path("inbox", shard)
    try:
        tail = Tail(store, path, find_version(store, path, Stamp(0)))
        while commits := tail.poll(1_000):
            if any(commit.info.get("stamp") == end for commit in commits):
                return True
    except (CorruptTable, TailLost, OSError, ValueError, TypeError, LookupError) as error:
        log.warning("planned_shard.blocked", shard=shard, why=str(error))
        return False
    log.warning("planned_shard.blocked", shard=shard, why=f"it has no commit of stamp {end}")
    return False
