"""What became of one record in one group, and how many are still to be done."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from lakequeue.errors import InvalidRequest
from lakequeue.wire.shapes import AnswerShape, RequestShape

StatusName = Literal[
    "pending", "in_flight", "parked", "dying", "dead", "expired", "acked", "settled"
]


def place_of(topic: str, partition: int, offset: int) -> str:
    """How a record is named in one word: `topic/partition@offset`."""
    return f"{topic}/{partition}@{offset}"


def parse_place(text: str) -> tuple[str, int, int]:
    """(topic, partition, offset) of `topic/partition@offset`. Raises `InvalidRequest`."""
    topic, _, rest = text.rpartition("/")
    numbers = rest.split("@")
    if topic and len(numbers) == 2 and all(n.isascii() and n.isdigit() for n in numbers):
        return topic, int(numbers[0]), int(numbers[1])
    raise InvalidRequest(
        f"{text[:300]!r} names no record",
        hint="write topic/partition@offset, as in orders/0@42",
        field="record",
    )


class StatusQuery(RequestShape):
    """Query parameters of `GET …/groups/{group}/topics/…/records/{offset}`."""

    sent_on: bool = False
    """Another node has sent us here: answer as well as can be, and send on no more."""


class DeadLetterPlace(AnswerShape):
    """Where a dead letter stands."""

    topic: str
    partition: int
    offset: int


class RecordStatus(AnswerShape):
    """`GET /v1/groups/{group}/topics/{topic}/partitions/{partition}/records/{offset}`."""

    group: str
    topic: str
    partition: int
    offset: int
    status: StatusName
    """pending: to be delivered, for the first time or again. in_flight: with a member. parked:
    rests until it is due. dying, dead: on its way to the dead-letter topic; there. expired: its
    time to live was over before it was delivered. acked: done, or skipped by a seek, a purge,
    `from=latest`, retention or the group's predicate. settled: acked, dead or expired, and which
    one is not remembered."""
    attempt: int | None = None
    """Queue groups: deliveries so far; 0: none. Null where it is not kept: acked, expired."""
    member: str | None = None
    """in_flight: with whom."""
    deadline: int | None = None
    """in_flight in a queue group: until when. Microseconds."""
    due: int | None = None
    """parked: until when. Microseconds."""
    reason: str | None = None
    """dying, dead: max_attempts or expired."""
    dead_letter: DeadLetterPlace | None = None
    """dead: where the dead letter stands, if it is known."""
    source: Literal["owner", "tables"] = Field("tables")
    """owner: from the memory of the node that has the partition. tables: from what is durable;
    what a stream group's member holds and has not acked is pending there."""


class TopicCounts(AnswerShape):
    """`GET /v1/groups/{group}/topics/{topic}/counts`: records that the group has not settled.

    As of now, whether anybody consumes or not. A group that does not exist is counted as one that
    begins at the first record. About: a delay is looked at of the newest 100,000 records of each
    partition that the group has never looked at.
    """

    group: str
    topic: str
    pending: int
    """To be delivered, for the first time or again."""
    in_flight: int
    """Queue groups: with a consumer, whose visibility timeout is not over."""
    parked: int
    """Queue groups: rest until they are due."""
    dying: int
    """Queue groups: on their way to the dead-letter topic."""
