"""A topic that takes no records for a while, so that it can be drained before it grows.

Every group of records is checked, right before it is committed, against the topics as its shard
knows them, and every shard begins by reading them. So once a topic is closed and all shards that
were there are sealed, what was placed by the old number of partitions is in the sealed shards, and
nothing else of it will ever be committed: see docs/protocols/repartitioning.md.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from lakequeue.clock import Micros
from lakequeue.errors import OrderTimeout
from lakequeue.records import ShardName, Stamp, TopicId
from queue_rules.produce.rows import Request
from queue_tables.log.marks import LogMarks
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import WATERMARKS
from queue_tables.schema.topic_rules import (
    Topic,
    refuse_if_closed,
    refuse_if_grown,
    refuse_if_open,
)
from queue_tables.shards.shards import seal_shard
from queue_tables.topics import TopicStore
from serving.front.parking import Steps, Until, Wake

_LOOK_S = 0.05


def refuse_if_changed(parts: Iterable[Request], topics: TopicStore, now: Micros) -> None:
    """Raise `TopicClosed` if one of these topics is closed, or has grown since they were placed."""
    for part in parts:
        topic = topics.by_id(TopicId(part.topic_id)) if part.placed_among else None
        if topic is None:
            # Deleted meanwhile: the order job says so, in `rejects`.
            continue
        refuse_if_closed(topic, now)
        refuse_if_grown(topic, part.placed_among)


def settle(
    root: QueueRoot, topic: Topic, now: Micros, marks: LogMarks, timeout_s: float
) -> Steps[int]:
    """Seal every inbox shard there is, and wait until all that is in them is ordered.

    Returns how many shards were sealed. Raises `InvalidRequest` if the topic is open: then it says
    nothing; `OrderTimeout`.
    """
    refuse_if_open(topic, now)
    stamps: dict[ShardName, Stamp] = {}
    for shard in root.shards("inbox"):
        try:
            stamps[shard] = seal_shard(root, "inbox", shard)
        except FileNotFoundError:
            # Removed since the list was made: all of it was ordered.
            continue
    deadline = time.monotonic() + timeout_s
    never = Wake()
    names = [WATERMARKS.name(shard) for shard in stamps]
    while late := _not_ordered(stamps, WATERMARKS.read(marks.read(*names))):
        if time.monotonic() > deadline:
            raise OrderTimeout(
                f"{len(late)} of {len(stamps)} shards are not ordered to their end yet",
                hint="is the order job running? ask again",
                stored="yes",
                retry_after_s=1.0,
            )
        # Marks are read from storage: nobody notifies for all of them at once.
        yield Until(never, _LOOK_S)
    return len(stamps)


def _not_ordered(
    stamps: Mapping[ShardName, Stamp], ordered: Mapping[ShardName, Stamp]
) -> list[ShardName]:
    """The shards of which something is still to be ordered. Pure."""
    return [shard for shard, stamp in stamps.items() if ordered.get(shard, 0) < stamp]
