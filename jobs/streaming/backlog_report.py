"""What waits for the order job and the offsets job: their `--dry-run`. Needs the root alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakequeue.clock import Micros
from lakequeue.errors import TailLost
from lakequeue.records import ShardName, Stamp
from queue_tables.delta.actions import Commit, whole
from queue_tables.delta.stamps import sound_stamp
from queue_tables.delta.tail import Tail, find_version
from queue_tables.groups.state import read_group_offsets
from queue_tables.log.marks import LogMarks
from queue_tables.root import QueueRoot, ShardKind
from queue_tables.schema.marks import WATERMARKS
from queue_tables.shards.shards import shard_path

ROWS: Mapping[ShardKind, str] = {"inbox": "records", "journal": "facts"}
"""What the rows of a shard are."""


def backlog_report(root: QueueRoot, kind: ShardKind, now: Micros) -> dict[str, Any]:
    """Shards with something that is not ordered (folded), its commits, rows and bytes."""
    # First how far they are done, then the shards: what comes in between counts.
    done = (
        WATERMARKS.read(LogMarks(root).read()) if kind == "inbox" else read_group_offsets(root)[1]
    )
    shards = commits = rows = size = 0
    oldest = now
    for shard in root.shards(kind):
        news = _news(root, kind, shard, done.get(shard, Stamp(0)))
        shards, commits = shards + bool(news), commits + len(news)
        rows += sum(whole(commit.info.get("rows")) or 0 for commit in news)
        size += sum(whole(commit.info.get("bytes")) or 0 for commit in news)
        oldest = min([oldest, *(stamp for c in news if (stamp := sound_stamp(c)) is not None)])
    return {
        "shards": shards,
        "commits": commits,
        ROWS[kind]: rows,
        "bytes": size,
        "oldest_s": round((now - oldest) / 1e6, 3),
    }


def _news(root: QueueRoot, kind: ShardKind, shard: ShardName, done: Stamp) -> list[Commit]:
    path = shard_path(kind, shard)
    try:
        # What is behind a torn commit waits as well.
        start = find_version(root.store, path, done)
        commits = Tail(root.store, path, start, pass_torn=True).poll()
    except (FileNotFoundError, TailLost):
        return []  # done with, and removed
    return [commit for commit in commits if commit.appends]
