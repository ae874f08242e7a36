"""The words of queue partitions: attempts, moves, refusals."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, NamedTuple

from consumer_service.queues.parked import Parked
from queue_tables.facts import Kind
from queue_tables.record_states import NEVER

MOST_MOVES: Final = 10_000
"""Changes of one partition that one poll commits: it goes on in a second look."""


class Standing(Enum):
    """Where an attempt stands in memory."""

    IN_FLIGHT = "in flight"
    """With a consumer."""
    RETURNED = "returned"
    """To be delivered again at once; its receipt is good until the deadline or the next attempt."""
    SETTLING = "settling"
    """An ack, nack or extension of it is being committed."""
    DYING = "dying"
    """On its way to the dead-letter topic."""


@dataclass(slots=True)
class Attempt:
    """The newest attempt at a record."""

    offset: int
    attempt: int
    deadline: int
    first_at: int
    key_hash: int = 0
    expires_at: int = NEVER
    member: str = ""
    standing: Standing = Standing.IN_FLIGHT
    reason: str = ""
    written: bool = False
    """Dying: the fact that says so is durable."""


class Move(NamedTuple):
    """A change to be committed: a fact, but for the partition's own fields."""

    kind: Kind
    offset: int
    attempt: int = 0
    until: int = 0
    first_at: int = 0
    key_hash: int = 0
    expires_at: int = NEVER
    member: str = ""
    reason: str = ""


class Refusal(NamedTuple):
    """Why a receipt is not good, with both numbers."""

    why: Literal["superseded", "timed_out", "settled", "unknown", "busy"]
    presented: int
    current: int | None
    """Newest attempt (superseded, settled; None: not known), or the deadline in µs (timed out)."""


class NewRecord(NamedTuple):
    """What must be known of a record that is looked at for the first time. Times in µs."""

    offset: int
    key_hash: int = 0
    deliver_at: int = 0
    expires_at: int = NEVER


@dataclass(slots=True)
class Taken:
    """What a poll takes: records to deliver, and all that has to be committed before."""

    deliver: list[Attempt] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)


def attempt_of(due: Parked) -> Attempt:
    return Attempt(due.offset, due.attempt, 0, due.first_at, due.key_hash, due.expires_at)


def move_of(kind: Kind, one: Attempt) -> Move:
    return Move(
        kind,
        one.offset,
        one.attempt,
        one.deadline,
        one.first_at,
        one.key_hash,
        one.expires_at,
        one.member,
        one.reason,
    )
