"""Files in the inbox that a bulk writer's task wrote and no commit took: it or the driver died.

Tasks write before the driver commits, so a file without a commit may be one of a write that runs.
It is taken for nobody's a day after it was written; whoever commits after all finds it gone, adds
nothing, and says so (`queue_tables/shards/bulk.py`).
"""

from __future__ import annotations

import structlog

from lakequeue.clock import Micros, hour_of
from lakequeue.errors import CorruptTable
from queue_tables.delta.table import TableLog
from queue_tables.root import QueueRoot
from queue_tables.shards.bulk import QUIET_S, create_run_shard
from queue_tables.shards.shards import QUIET, shard_path
from queue_tables.upkeep.clean_up import Cleaned, vacuum_table

GRACE_HOURS = QUIET_S // 3_600
"""As long as a bulk writer may be quiet."""
_HOUR_US = 3_600 * 1_000_000

log = structlog.get_logger("upkeep")


def vacuum_inbox(root: QueueRoot, now: Micros, *, dry_run: bool) -> Cleaned:
    """Delete what belongs to no shard of a bulk writer. Safe beside everything, and twice.

    Only folders with hours of that age are looked into: what is ordered has left them.
    """
    old = f"hour={hour_of(now - GRACE_HOURS * _HOUR_US)}"
    files = size = 0
    for name in root.store.names("inbox"):
        path = shard_path("inbox", name)
        hours = [f for f in root.store.names(path) if f.startswith("hour=") and f < old]
        if not hours:
            continue
        try:
            done = _vacuum(root, path, hours, dry_run=dry_run)
        except (FileNotFoundError, CorruptTable) as error:
            # Removed whole meanwhile; or it cannot be read, which keeps nobody from the others.
            log.warning("vacuum.failed", table=path, why=str(error))
            continue
        files, size = files + done.files, size + done.bytes
    return Cleaned(files, size)


def _vacuum(root: QueueRoot, path: str, hours: list[str], *, dry_run: bool) -> Cleaned:
    if not root.is_table(path):
        if dry_run:
            sizes = [size for hour in hours for size in root.store.sizes(f"{path}/{hour}").values()]
            return Cleaned(len(sizes), sum(sizes))
        # The driver died before it opened the shard. As if it had: then a vacuum can be met, and
        # the empty shard is sealed and removed as any other.
        create_run_shard(root, path)
    if QUIET not in TableLog(root.store, path, keep_files=False).open().configuration:
        return Cleaned()  # of an ingest node: it goes as a whole
    return vacuum_table(root, path, GRACE_HOURS, dry_run=dry_run)
