"""What became of a record in a group: from the memory of its owner, else from the tables.

The owner knows what is in flight with whom at this moment. Another node sends the question on to
it; while nobody has the partition, or the owner cannot be told, what is durable is the answer:
`group_offsets` and the facts of the journals that are not folded yet.
"""

from __future__ import annotations

import threading
from typing import Literal

from consumer_service.holding.held import Held
from consumer_service.node import Node
from coordination import membership
from lakequeue.clock import wall_micros
from lakequeue.errors import CoordinationUnavailable, UnknownGroup, UnknownRecord
from lakequeue.records import Partition, TopicPartition, checked_name
from lakequeue.wire import DeadLetterPlace, RecordStatus, parse_place
from queue_tables.facts import Key
from queue_tables.group_state import GroupStateReader
from queue_tables.record_status import ACKED, Status, status_in
from queue_tables.topic_rules import Topic


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
            return _answer(key, topic, offset, known, "owner")
        url = None if sent_on else self._owner(key)
        if url is not None:
            path = f"/v1/groups/{group}/topics/{topic}/partitions/{partition}/records/{offset}"
            return f"{url}{path}?sent_on=true"
        return _answer(key, topic, offset, self._in_tables(key, found, offset), "tables")

    def _check(self, topic: Topic, partition: int, offset: int) -> None:
        """Raise `UnknownRecord` unless the record exists."""
        if not 0 <= partition < topic.partitions:
            raise UnknownRecord(
                f"topic {topic.topic} has partitions 0 to {topic.partitions - 1}, not {partition}",
                hint="give one of those",
            )
        tailer, where = self._node.tailer, TopicPartition(topic.topic_id, Partition(partition))
        tailer.catch_up()
        start, end = int(tailer.first(where)), int(tailer.end(where))
        if not start <= offset < end:
            raise UnknownRecord(
                f"partition {partition} of {topic.topic} has the offsets {start} to {end - 1}, "
                f"not {offset}",
                hint="a record has a status once it is ordered, and for as long as it is kept",
                first_offset=start,
                end_offset=end,
            )

    def _in_memory(self, key: Key, offset: int) -> Status | None:
        """None if this node is not the owner, or cannot be sure of it."""
        held = self._node.holdings.get(key)
        if held is None:
            return None
        with held.lock:
            if not held.delivers or not held.trusted():
                return None
            return status_of_held(held, offset, wall_micros())

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
        if exists:
            raise UnknownGroup(
                f"group {group!r} does not consume topic {topic.topic}",
                hint="its first member that joins with the topic begins to",
            )
        raise UnknownGroup(f"group {group!r} does not exist", hint="its first member creates it")


def status_of_held(held: Held, offset: int, now: int) -> Status:
    """What the owner knows of a record. The caller holds the partition's lock. Pure."""
    if held.queue is not None:
        return held.queue.status(offset, now)
    if offset < held.cursor.durable:
        return ACKED
    if offset < held.cursor.delivered:
        # Also while its ack is on the way: it may be refused yet.
        return Status("in_flight", member=held.member)
    return Status("pending")


def _answer(
    key: Key, topic: str, offset: int, status: Status, source: Literal["owner", "tables"]
) -> RecordStatus:
    place = None
    if status.dead_letter is not None:
        named, partition, at = parse_place(status.dead_letter)
        place = DeadLetterPlace(topic=named, partition=partition, offset=at)
    return RecordStatus(
        group=key.group,
        topic=topic,
        partition=key.partition,
        offset=offset,
        status=status.status,
        attempt=status.attempt,
        member=status.member,
        deadline=status.until if status.status == "in_flight" else None,
        due=status.until if status.status == "parked" else None,
        reason=status.reason,
        dead_letter=place,
        source=source,
    )
