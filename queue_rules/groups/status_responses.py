"""The rules of "what became of a record?", without a node. Pure."""

from __future__ import annotations

from typing import Literal

from lakequeue.errors import UnknownGroup, UnknownRecord
from lakequeue.wire import DeadLetterPlace, RecordStatus, parse_place
from queue_rules.streams.cursor import Cursor
from queue_tables.groups.facts import Key
from queue_tables.groups.record_status import ACKED, Status
from queue_tables.schema.topic_rules import Topic


def check_offset(topic: Topic, partition: int, offset: int, start: int, end: int) -> None:
    """Raise `UnknownRecord` unless it is one of `start` to `end` - 1, which exist."""
    if start <= offset < end:
        return
    has = f"the offsets {start} to {end - 1}" if start < end else "no record"
    raise UnknownRecord(
        f"partition {partition} of {topic.topic} has {has}, not {offset}",
        hint="a record has a status once it is ordered, and for as long as it is kept",
        first_offset=start,
        end_offset=end,
    )


def not_consumed(group: str, topic: str, *, exists: bool) -> UnknownGroup:
    """The group is not there, or not there for the topic."""
    if not exists:
        return UnknownGroup(f"group {group!r} does not exist", hint="its first member creates it")
    return UnknownGroup(
        f"group {group!r} does not consume topic {topic}",
        hint="its first member that joins with the topic begins to",
    )


def stream_status(cursor: Cursor, member: str, offset: int) -> Status:
    """In a stream group, as the partition's owner knows it; `member` has it."""
    if offset < cursor.durable or cursor.passed(offset):
        return ACKED
    if offset < cursor.delivered:
        # Also while its ack is on the way: it may be refused yet.
        return Status("in_flight", member=member)
    return Status("pending")


def response_of(
    key: Key, topic: str, offset: int, status: Status, source: Literal["owner", "tables"]
) -> RecordStatus:
    """As the wire has it."""
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
