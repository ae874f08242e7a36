"""What became of a record in a group: from the memory of its owner, else from the tables.

The owner knows what is in flight with whom at this moment. Another node sends the question on to
it; while nobody has the partition, or the owner cannot be told, what is durable is the answer:
`group_offsets` and the facts of the journals that are not folded yet.
"""

from __future__ import annotations

import threading

from consumer_service.node import Node
from consumer_service.ownership.owned_partition import OwnedPartition
from coordination.groups import membership
from lakequeue.clock import wall_micros
from lakequeue.errors import CoordinationUnavailable, UnknownRecord
from lakequeue.records import Partition, TopicPartition, checked_name
from lakequeue.wire import RecordStatus
from queue_rules.groups.status_responses import (
    check_offset,
    not_consumed,
    response_of,
    stream_status,
)
from queue_tables.groups.facts import Key
from queue_tables.groups.record_status import Status, status_in
from queue_tables.groups.state import GroupStateReader
from queue_tables.schema.topic_rules import Topic


class Statuses:
    """Thread-safe."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._reader = GroupStateReader(node.root)
        self._reading = threading.Lock()

    def find(
        self, group: str, topic: str, partition: int, offset: int, *, sent_on: bool
    ) -> RecordStatus | str:
        """The status, or where to ask for it: the URL of the same thing at the owner.

        `sent_on`: never that. Raises `UnknownTopic`, `UnknownRecord`, `UnknownGroup`.
        """
        node = self._node
        checked_name(group, "group")
        node.topics.refresh()
        found = node.topics.get(topic)
        self._check(found, partition, offset)
        key = Key(group, found.topic_id, Partition(partition))
        known = self._in_memory(key, offset)
        if known is not None:
            return response_of(key, topic, offset, known, "owner")
        url = None if sent_on else self._owner(key)
        if url is not None:
            path = f"/v1/groups/{group}/topics/{topic}/partitions/{partition}/records/{offset}"
            return f"{url}{path}?sent_on=true"
        return response_of(key, topic, offset, self._in_tables(key, found, offset), "tables")

    def _check(self, topic: Topic, partition: int, offset: int) -> None:
        """Raise `UnknownRecord` unless the record exists."""
        topic.place(partition, field=None, error=UnknownRecord)
        tailer, where = self._node.tailer, TopicPartition(topic.topic_id, Partition(partition))
        tailer.catch_up()
        start, end = int(tailer.first(where)), int(tailer.end(where))
        check_offset(topic, partition, offset, start, end)

    def _in_memory(self, key: Key, offset: int) -> Status | None:
        """None if this node is not the owner, or cannot be sure of it."""
        owned = self._node.owned_partitions.get(key)
        if owned is None:
            return None
        with owned.lock:
            if not owned.delivers or not owned.trusted():
                return None
            return status_of_held(owned, offset, wall_micros())

    def _owner(self, key: Key) -> str | None:
        try:
            return self._node.url_of_owner(key)
        except CoordinationUnavailable:
            return None

    def _in_tables(self, key: Key, topic: Topic, offset: int) -> Status:
        with self._reading:
            states = self._reader.read(key.group).states
        alive = {k: state for k, state in states.items() if not state.deleted}
        if not any(k.topic_id == key.topic_id for k in alive):
            self._check_subscribed(key.group, topic, exists=bool(alive))
        return status_in(alive.get(key), offset, wall_micros())

    def _check_subscribed(self, group: str, topic: Topic, *, exists: bool) -> None:
        """Raise `UnknownGroup` unless a member of the group is there for the topic."""
        session = self._node.session
        try:
            present = membership.members(session, group).values()
            exists = exists or membership.group_config(session, group) is not None
        except CoordinationUnavailable:
            # The tables know nothing of it: that is all that can be said now.
            present = {}.values()
        if any(topic.topic in member.topics for member in present):
            return
        raise not_consumed(group, topic.topic, exists=exists)


def status_of_held(owned: OwnedPartition, offset: int, now: int) -> Status:
    """What the owner knows of a record. The caller holds the partition's lock. Pure."""
    if owned.queue is not None:
        return owned.queue.status(offset, now)
    return stream_status(owned.cursor, owned.member, offset)
