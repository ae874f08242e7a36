"""Receipts of queue groups, and the headers of dead letters."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from zlib import crc32

from lakequeue.errors import InvalidRequest
from lakequeue.wire.calls.topics import VALUE_FAULT_HEADER

_MARK: Final = "q"
_RECEIPT: Final = re.compile(rf"{_MARK}\.([^.]+)" + r"\.([0-9]{1,19})" * 5)

_OF_CONSUME: Final = re.compile(r"cli-[0-9a-f]{12}")


class QueueReceipt(NamedTuple):
    """What a consumer of a queue group acknowledges by; opaque to it.

    It names a record and an attempt at it, and neither member nor owner: so it stays good when
    the partition moves. `group` is a checksum, against mixing up groups, not against forgery.
    """

    topic_id: str
    partition: int
    offset: int
    generation: int
    attempt: int
    group: int

    def __str__(self) -> str:
        topic_id, partition, offset, generation, attempt, group = self
        begin = queue_receipts_begin(topic_id, partition)
        return f"{begin}{offset}.{generation}.{attempt}.{group}"


def group_checksum(group: str) -> int:
    """What a receipt says of its group."""
    return crc32(group.encode())


def queue_receipts_begin(topic_id: str, partition: int) -> str:
    """How the receipts of a partition begin; offset, generation, attempt and group follow."""
    return f"{_MARK}.{topic_id}.{partition}."


def parse_queue_receipt(receipt: str) -> QueueReceipt:
    """Read it back. Raises `InvalidRequest` for anything else."""
    if found := _RECEIPT.fullmatch(receipt):
        topic_id, one, two, three, four, five = found.groups()
        return QueueReceipt(topic_id, int(one), int(two), int(three), int(four), int(five))
    raise InvalidRequest(
        f"receipt {receipt[:80]!r} is not of a queue group",
        hint="send back the receipt of the record as it was delivered",
        field="acks",
    )


class DeadLetterHeader:
    """Headers that a dead letter has beside those of the record; all are text."""

    GROUP: Final = "lakequeue-group"
    TOPIC: Final = "lakequeue-topic"
    PARTITION: Final = "lakequeue-partition"
    OFFSET: Final = "lakequeue-offset"
    ATTEMPTS: Final = "lakequeue-attempts"
    MESSAGE_ID: Final = "lakequeue-message-id"
    """That of the record, or of the first one if it was a dead letter itself; if it is short."""
    REASON: Final = "lakequeue-reason"
    """max_attempts, expired, undecodable or wrong_value."""
    NACK_REASON: Final = "lakequeue-nack-reason"
    """What the nack of the last attempt gave as its reason, if it did, and if the node that it came
    to still lived when the letter was sent."""
    FIRST_AT: Final = "lakequeue-first-delivered-at"
    """RFC 3339; empty if it never was."""
    LAST_AT: Final = "lakequeue-dead-at"
    """RFC 3339: when it was given up."""
    UNDECODABLE: Final = "lakequeue-undecodable"
    """Why the record could not be read; such a letter has neither key nor value."""
    FAULT: Final = VALUE_FAULT_HEADER
    """Why the value is not of the topic's schema."""
    TIMESTAMP: Final = "lakequeue-timestamp"
    """The record's own time in µs, if no record can be sent with it."""
    MORE: Final = "lakequeue-more-headers"
    """JSON of headers of the record for which there was no room."""


DEAD_LETTER_HEADERS: Final = frozenset(
    value for name, value in vars(DeadLetterHeader).items() if name.isupper()
)
"""All of them; a record that is sent back loses them."""


ERASED_HEADER: Final = "lakequeue-erased"
"""The one header of a tombstone that erasing leaves; its value is the time, RFC 3339."""


def dead_letter_id(
    group: str, topic_id: str, partition: int, offset: int, generation: int = 0
) -> str:
    """Message id of a dead letter: sending it twice stores it once.

    A record that a seek, or a new group of the same name, has brought back may die once more.
    """
    plain = f"dead:{group}:{topic_id}:{partition}:{offset}"
    return f"{plain}:{generation}" if generation else plain


def redrive_group(topic: str) -> str:
    """The group that consumes a dead-letter topic for its redrive."""
    return f"redrive.{topic}"


def is_internal_group(group: str) -> bool:
    """Whether a command made the group, for itself: a redrive, or `consume` without -g. Pure."""
    return group.startswith(redrive_group("")) or _OF_CONSUME.fullmatch(group) is not None


def redrive_id(dlq_topic_id: str, partition: int, offset: int) -> str:
    """Message id of what becomes of one dead record: the same however often it is tried."""
    return f"redrive:{dlq_topic_id}:{partition}:{offset}"
