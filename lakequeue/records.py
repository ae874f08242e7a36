"""The words of the queue: identifiers that must not be mixed up, and the record.

An offset, a table version and a stamp are all whole numbers, and mixing two of them is a silent
fault, so each has a type of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, NewType

from lakequeue.errors import InvalidName

Offset = NewType("Offset", int)
"""Position of a record in its partition: 0, 1, 2, … without gaps."""
Partition = NewType("Partition", int)
Version = NewType("Version", int)
"""Version of a Delta table: the number of a file in `_delta_log`."""
Stamp = NewType("Stamp", int)
"""Hybrid logical time in microseconds since 1970 UTC, strictly rising within a shard."""
Epoch = NewType("Epoch", int)
"""Term of an owner (lease, leader). The higher one is right, always."""
TopicId = NewType("TopicId", str)
"""New at each creation of a topic: offsets, dedup and group state hang on it, never on the name."""
ShardName = NewType("ShardName", str)
"""`<node>-<boot>`: the one process incarnation that may commit to that shard."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")


def checked_name(name: str, kind: str) -> str:
    """Return `name` if it may name a `kind` ("topic", "group", "node"); raise `InvalidName`."""
    if not _NAME.match(name) or name in {".", ".."}:
        raise InvalidName(
            f"{kind} name {name!r} is not valid",
            hint="use 1 to 249 characters of A-Z a-z 0-9 . _ -",
        )
    return name


class Format(IntEnum):
    """How a key or value was sent, so that it comes back out as it came in."""

    BYTES = 0
    """Raw bytes; on the JSON wire as `key_base64` or `value_base64`."""
    TEXT = 1
    """A JSON string; stored as its UTF-8 bytes."""
    JSON = 2
    """Any other JSON value (object, array, number, boolean); stored as compact JSON text."""


class TopicPartition(NamedTuple):
    """A partition of one incarnation of a topic."""

    topic_id: TopicId
    partition: Partition


@dataclass(frozen=True, slots=True)
class Record:
    """A record as a consumer receives it. Times are microseconds since 1970 UTC."""

    topic: str
    partition: Partition
    offset: Offset
    key: bytes | None
    value: bytes | None
    key_format: Format = Format.BYTES
    value_format: Format = Format.BYTES
    headers: tuple[tuple[str, bytes | None], ...] = field(default=())
    timestamp: int = 0
    ordered_at: int = 0
    message_id: str | None = None
