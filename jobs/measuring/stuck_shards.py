"""Which shards cannot be read on, seen from the tables alone: for `lakequeue doctor`."""

from __future__ import annotations

from typing import NamedTuple

from jobs.ordering.file_faults import remedy_of
from lakequeue.errors import LakequeueError, TailLost
from lakequeue.records import ShardName, Stamp
from queue_tables.delta.stamps import RisingStamps, stamp_of
from queue_tables.delta.tail import UNREADABLE, Tail, find_version, stamp_at
from queue_tables.groups.state import read_group_offsets
from queue_tables.log.marks import LogMarks
from queue_tables.root import QueueRoot, ShardKind
from queue_tables.schema.marks import WATERMARKS
from queue_tables.shards.shards import shard_path


class Stuck(NamedTuple):
    """A shard that waits."""

    why: str
    remedy: str


def stuck_shards(root: QueueRoot, kind: ShardKind = "inbox") -> dict[ShardName, Stuck]:
    """Shards with a commit that cannot be read; or (inbox) whose next one names a file that is not
    there: what comes after it waits for it.
    """
    done = (
        WATERMARKS.read(LogMarks(root).read()) if kind == "inbox" else read_group_offsets(root)[1]
    )
    found = {
        shard: _trouble(root, kind, shard, done.get(shard, Stamp(0))) for shard in root.shards(kind)
    }
    return {shard: stuck for shard, stuck in found.items() if stuck is not None}


def _trouble(root: QueueRoot, kind: ShardKind, shard: ShardName, mark: Stamp) -> Stuck | None:
    path = shard_path(kind, shard)
    try:
        start = find_version(root.store, path, mark)
        judge = RisingStamps(path, stamp_at(root.store, path, start))
        tail = Tail(root.store, path, start, check=judge)
        commits = tail.poll()
        if commits:
            tail.poll()  # it returns what comes before a commit that cannot be read
    except (FileNotFoundError, TailLost) as error:
        return _stuck(error) if root.is_table(path) else None
    except UNREADABLE as error:
        return _stuck(error)
    following = next((c for c in commits if (stamp_of(c, path) or 0) > mark), None)
    if following is None or kind == "journal":
        return None  # a journal file that is gone is set aside
    gone = [add.path for add in following.adds if not _is_there(root, f"{path}/{add.path}")]
    if not gone:
        return None
    missing = f"{path}/{gone[0]}"
    return Stuck(f"{missing} is gone, and nothing behind it is ordered", remedy_of(missing))


def _stuck(error: Exception) -> Stuck:
    if isinstance(error, LakequeueError):
        return Stuck(error.detail, error.hint)
    return Stuck(
        f"its log cannot be read: {error}", "restore _delta_log of the shard from a backup"
    )


def _is_there(root: QueueRoot, path: str) -> bool:
    try:
        root.store.size(path)
    except FileNotFoundError:
        return False
    return True
