"""The words of queue partitions: attempts, moves, refusals; and what is in flight."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Literal, NamedTuple

from queue_rules.queues.delayed import DelayedRecord, DelayedRecords
from queue_tables.groups.backlog import Counts
from queue_tables.groups.facts import Kind
from queue_tables.groups.record_states import NEVER, reason_of_unopened, reason_with
from queue_tables.groups.record_status import Status

MOST_MOVES: Final = 10_000
"""Changes of one partition that one poll commits: it goes on in a second look."""
MAX_ATTEMPTS: Final = "max_attempts"
EXPIRED: Final = "expired"
UNDECODABLE: Final = "undecodable"
"""Why a record dies."""


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
    nack_reason: str = ""
    """Why it was given back: what the last nack said, for people."""
    written: bool = False
    """Dying: the fact that says so is durable."""
    unopened: int = 0
    """Attempts up to this one that came back unopened: they do not count."""
    opened: bool = True
    """False: this one is among them, or nobody can say any more that it is."""
    told: int = 0
    """Of them, those that the tables are told of before the partition is let go."""

    @property
    def counted(self) -> int:
        """Attempts that count against `max_attempts`."""
        return self.attempt - self.unopened

    def left_unopened(self) -> None:
        """Nobody has looked at what was delivered. Said twice, it is as said once."""
        if self.opened:
            self.opened = False
            self.unopened += 1


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
    dead_letter: str = ""
    end: int = 0
    """It is about all offsets before this; 0: about `offset` alone."""


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


def attempt_of(due: DelayedRecord) -> Attempt:
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
        reason_with(one.reason, one.nack_reason) or reason_of_unopened(one.unopened),
    )


def acked_moves(acked: Iterable[Attempt]) -> list[Move]:
    """The facts of these acks: one for neighbours that say the same."""
    moves: list[Move] = []
    first: Attempt | None = None
    end = 0
    for one in acked:
        if (
            first is not None
            and one.offset == end
            and (one.attempt, one.member) == (first.attempt, first.member)
        ):
            end += 1
            continue
        if first is not None:
            moves.append(_acked(first, end))
        first, end = one, one.offset + 1
    if first is not None:
        moves.append(_acked(first, end))
    return moves


def _acked(first: Attempt, end: int) -> Move:
    return Move(Kind.ACKED, first.offset, first.attempt, member=first.member, end=end)


def returned_moves(returned: Iterable[Attempt], now: int) -> list[Move]:
    """Facts for a next owner: these can be delivered again from `now` on, not at their deadline."""
    return [move_of(Kind.PARKED, one)._replace(until=now) for one in returned]


def status_of_attempt(one: Attempt, now: int) -> Status:
    """What a record is to the group while this is the newest attempt at it; `now` in µs."""
    if one.standing is Standing.DYING:
        return Status("dying", one.attempt, reason=one.reason)
    if one.standing is Standing.RETURNED or one.deadline <= now:
        return Status("pending", one.attempt)
    return Status("in_flight", one.attempt, one.member, one.deadline)


def status_of_delayed(record: DelayedRecord, now: int) -> Status:
    """The same, of a record that rests."""
    if record.due <= now:
        return Status("pending", record.attempt)
    return Status("parked", record.attempt, until=record.due)


class InFlight:
    """Attempts that are with a member: how many each member has, and when the next one ends.

    `newest`: the newest attempt at each record, by offset; the partition's own.
    """

    def __init__(self, newest: Mapping[int, Attempt]) -> None:
        self._newest = newest
        self._deadlines: list[tuple[int, int, int]] = []
        self._held: Counter[str] = Counter()

    def held_by(self, member: str) -> int:
        """How many records are in flight at a member."""
        return self._held[member]

    @property
    def held(self) -> Mapping[str, int]:
        """The same of every member that has any."""
        return self._held

    def hold(self, one: Attempt) -> None:
        """It is with its member until its deadline."""
        one.standing = Standing.IN_FLIGHT
        self.hold_again(one)
        heapq.heappush(self._deadlines, (one.deadline, one.offset, one.attempt))
        self._drop_ended()

    def _drop_ended(self) -> None:
        if len(self._deadlines) > 1_000 + 4 * len(self._newest):
            # Most are of attempts that have ended.
            self._deadlines = [entry for entry in self._deadlines if self._is_out(*entry)]
            heapq.heapify(self._deadlines)

    def hold_new(self, some: Sequence[Attempt]) -> None:
        """First attempts, all of one member, with one deadline."""
        self._held[some[0].member] += len(some)
        for one in some:
            heapq.heappush(self._deadlines, (one.deadline, one.offset, one.attempt))
        self._drop_ended()

    def hold_again(self, one: Attempt) -> None:
        """It counts as held by its member, without a deadline."""
        self._held[one.member] += 1

    def let_go(self, one: Attempt) -> None:
        """Its member does not have it any more."""
        self._held[one.member] -= 1
        if self._held[one.member] <= 0:
            del self._held[one.member]

    def let_all_go(self, some: Iterable[Attempt]) -> None:
        """The same of many."""
        for member, many in Counter([one.member for one in some]).items():
            self._held[member] -= many
            if self._held[member] <= 0:
                del self._held[member]

    def next_deadline(self) -> int | None:
        """When the next attempt ends; None: there is none."""
        while self._deadlines:
            if self._is_out(*self._deadlines[0]):
                return self._deadlines[0][0]
            heapq.heappop(self._deadlines)
        return None

    def timed_out(self, now: int) -> Attempt | None:
        """An attempt that has ended by `now`; it is told once."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return None
        return self._newest[heapq.heappop(self._deadlines)[1]]

    def _is_out(self, deadline: int, offset: int, attempt: int) -> bool:
        one = self._newest.get(offset)
        return (
            one is not None
            and one.attempt == attempt
            and one.deadline == deadline
            and one.standing is Standing.IN_FLIGHT
        )


def counts_of(attempts: Iterable[Attempt], delayed: DelayedRecords, now: int) -> Counts:
    """At `now`: an attempt that has timed out, or was returned, is pending again."""
    held = dying = other = 0
    for one in attempts:
        if one.standing is Standing.DYING:
            dying += 1
        elif one.standing is not Standing.RETURNED and one.deadline > now:
            held += 1
        else:
            other += 1
    parked = delayed.later_than(now)
    return Counts(other + len(delayed) - parked, held, parked, dying)
