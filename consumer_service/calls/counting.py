"""How many records of a topic a group has to do, as of now, though nobody may be consuming.

Where the log ends and what the tables say of the group are enough: so any node answers, a group
that nobody has joined has counts, and what has become due since is counted as due. The node that
has a partition goes by its memory: it knows what was returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consumer_service.node import Node
from lakequeue.clock import Micros, wall_micros
from lakequeue.errors import CorruptTable, OffsetOutOfRange
from lakequeue.records import Partition, TopicPartition, checked_name
from lakequeue.wire import TopicCounts
from queue_tables.groups.backlog import LOOKED_AT, Counts, DueTimes, lag_of, open_at, unseen_at
from queue_tables.groups.facts import GroupState, Key
from queue_tables.groups.offset_ranges import NO_RANGES, Offsets, Ranges, ranges_of
from queue_tables.groups.record_states import NEVER
from queue_tables.groups.state import read_group_state

_NOTHING: Final = Counts(0, 0, 0, 0)


class Counting:
    """Thread-safe."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def count(self, group: str, topic: str) -> TopicCounts:
        """Over all partitions of the topic. Raises `UnknownTopic`, `InvalidName`."""
        node = self._node
        checked_name(group, "group")
        node.topics.refresh()
        found = node.topics.get(topic)
        node.tailer.catch_up()
        states = read_group_state(node.root, group).states
        alive = {key: state for key, state in states.items() if not state.deleted}
        counts, now = _NOTHING, wall_micros()
        for number in range(found.partitions):
            key = Key(group, found.topic_id, Partition(number))
            counts = counts.plus(self._partition(key, alive, now))
        return TopicCounts(group=group, topic=topic, **counts._asdict())

    def _partition(self, key: Key, states: Mapping[Key, GroupState], now: Micros) -> Counts:
        where, state = TopicPartition(key.topic_id, key.partition), states.get(key)
        first, end = int(self._node.tailer.first(where)), int(self._node.tailer.end(where))
        if state is not None and state.mode != "queue":
            return Counts(lag_of(state, first, end), 0, 0, 0)
        known = self._in_memory(key, now) or _in_tables(state, now)
        seen, counts = known
        start = max(first, seen[0, 1] if len(seen) and seen[0, 0] <= first else 0)
        return counts.plus(unseen_at(seen, start, end, self._due_times(where, start, end), now))

    def _in_memory(self, key: Key, now: Micros) -> tuple[Ranges, Counts] | None:
        """What was seen and what is open; None if this node is not the owner, or not surely."""
        owned = self._node.owned_partitions.get(key)
        if owned is None:
            return None
        with owned.lock:
            if owned.queue is None or not owned.delivers or not owned.trusted():
                return None
            return ranges_of(owned.queue.seen), owned.queue.counts(now)

    def _due_times(self, where: TopicPartition, start: int, end: int) -> DueTimes:
        start = max(start, end - LOOKED_AT)
        if start >= end:
            return _none_known()
        try:
            rows = self._node.tailer.due_times(where, start)
        except (CorruptTable, FileNotFoundError, OffsetOutOfRange):
            # Rewritten or removed just now, or damaged: about is enough.
            return _none_known()
        offsets, due = _micros(rows["offset"], 0), _micros(rows["deliver_at"], 0)
        return offsets, due, _micros(rows["expires_at"], NEVER)


def _in_tables(state: GroupState | None, now: Micros) -> tuple[Ranges, Counts]:
    if state is None:
        return NO_RANGES, _NOTHING
    settled = ranges_of([(0, state.committed_offset or 0), *state.records.seen.tolist()])
    return settled, open_at(state, now)


def _none_known() -> DueTimes:
    nothing = np.empty(0, np.int64)
    return nothing, nothing, nothing


def _micros(column: pa.ChunkedArray, default: int) -> Offsets:
    found: Offsets = pc.fill_null(column.cast(pa.int64()), default).to_numpy()
    return found
