"""Which inbox shards cannot be ordered on, seen from the tables alone: for `lakequeue doctor`."""

from __future__ import annotations

from collections.abc import Mapping

from lakequeue.errors import TailLost
from lakequeue.records import ShardName, Stamp
from queue_tables.delta.stamps import stamp_of
from queue_tables.delta.tail import UNREADABLE, Tail, find_version
from queue_tables.log.marks import LogMarks
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import WATERMARKS
from queue_tables.shards.shards import shard_path


def stuck_shards(root: QueueRoot) -> dict[ShardName, str]:
    """Shards of which the next commit cannot be read, or names a file that is not there; and why.

    Of each shard only that commit is looked at: what comes after it waits for it.
    """
    done = WATERMARKS.read(LogMarks(root).read())
    found = {shard: _trouble(root, shard, done) for shard in root.shards("inbox")}
    return {shard: why for shard, why in found.items() if why is not None}


def _trouble(root: QueueRoot, shard: ShardName, done: Mapping[ShardName, Stamp]) -> str | None:
    path = shard_path("inbox", shard)
    mark = done.get(shard, Stamp(0))
    try:
        commits = Tail(root.store, path, find_version(root.store, path, mark)).poll()
        following = next(iter([c for c in commits if (stamp_of(c, path) or 0) > mark]), None)
    except (FileNotFoundError, TailLost) as error:
        return f"its log cannot be read: {error}" if root.is_table(path) else None
    except UNREADABLE as error:
        return f"its log cannot be read: {error}"
    gone = (
        [add.path for add in following.adds if not _is_there(root, f"{path}/{add.path}")]
        if (following is not None)
        else []
    )
    return f"{path}/{gone[0]} is gone, and nothing behind it is ordered" if gone else None


def _is_there(root: QueueRoot, path: str) -> bool:
    try:
        root.store.size(path)
    except FileNotFoundError:
        return False
    return True
