"""`group.id`: the position of a streaming query, as facts of a group, so that its lag shows.

It informs only: a query goes on from its checkpoint, whatever the group says, and takes no lease.
A group that consumers share would be moved on by the query as well: give the query its own name.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping

from lakequeue.clock import HybridClock, wall_micros
from lakequeue.errors import ShardSealed
from lakequeue.records import Epoch, Offset, Partition, TopicId
from pyspark_lakequeue.source.vectors import Offsets, Place, Vector
from queue_tables.groups.fact_rows import to_arrow
from queue_tables.groups.facts import Fact, GroupState, Key, Kind
from queue_tables.groups.state import GroupStateReader
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import ShardWriter

MEMBER = "spark"
_QUIET_S = 86_400
"""A query may run once an hour; its shard stays its own for a day."""
LOOK_S = 5.0
"""At most so old is what is known of the group's generations."""


class GroupMirror:
    """Appends facts to a journal shard of its own. One a query."""

    def __init__(self, uri: str, group: str) -> None:
        self._root = QueueRoot.existing(uri)
        self._group = group
        self._node = f"spark-{uuid.uuid4().hex[:12]}"
        self._clock = HybridClock()
        self._shard: ShardWriter | None = None
        self._reader = GroupStateReader(self._root)
        self._states: Mapping[Key, GroupState] = {}
        self._looked_at: float | None = None
        self._moved: Offsets = {}

    def move_to(self, end: Vector) -> None:
        """The query has done everything below `end`."""
        self._look()
        news = {p: o for p, o in end.offsets.items() if self._moved.get(p) != o}
        if not news:
            return
        facts = [self._fact(place, offset, end.ids[place.topic]) for place, offset in news.items()]
        rows = to_arrow(facts)
        if self._shard is None:
            self._shard = self._open()
        try:
            self._shard.append(rows, self._clock.next())
        except ShardSealed:
            # Quiet for a day: sealed as abandoned.
            self._shard = self._open()
            self._shard.append(rows, self._clock.next())
        self._moved |= news

    def _look(self) -> None:
        """A seek and a deletion begin another generation: what was said before counts no more."""
        now = time.monotonic()
        if self._looked_at is not None and now - self._looked_at < LOOK_S:
            return
        before, self._states = self._states, self._reader.read(self._group).states
        self._looked_at = now
        if _generations(before) != _generations(self._states):
            self._moved = {}

    def _open(self) -> ShardWriter:
        return ShardWriter.create(self._root, "journal", self._node, _QUIET_S)

    def _fact(self, place: Place, offset: int, topic_id: str) -> Fact:
        key = Key(self._group, TopicId(topic_id), Partition(place.partition))
        state = self._states.get(key)
        return Fact(
            Kind.COMMITTED,
            self._group,
            place.topic,
            key.topic_id,
            key.partition,
            state.generation if state else 0,
            state.epoch if state else Epoch(0),
            Offset(offset),
            MEMBER,
            at=wall_micros(),
        )


def _generations(states: Mapping[Key, GroupState]) -> dict[Key, int]:
    return {key: state.generation for key, state in states.items()}
