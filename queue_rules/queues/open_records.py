"""The open records of one partition of a queue group, and what a receipt does to them. Pure.

See `queue_rules.queues.partition`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from random import Random

from queue_rules.queues.attempts import (
    MAX_ATTEMPTS,
    UNDECODABLE,
    Attempt,
    InFlight,
    Move,
    Refusal,
    Standing,
    counts_of,
    move_of,
    status_of_attempt,
    status_of_delayed,
)
from queue_rules.queues.delayed import DelayedRecord, DelayedRecords
from queue_rules.queues.key_order import KeyOrder
from queue_rules.queues.outcomes import Outcomes
from queue_rules.queues.retry_policy import RetryPolicy, backoff_ms
from queue_tables.groups.backlog import Counts
from queue_tables.groups.facts import Kind
from queue_tables.groups.offset_ranges import OffsetSet
from queue_tables.groups.record_states import (
    NOTHING,
    RecordStates,
    Stage,
    parted_reason,
    reason_with,
    unopened_in,
)
from queue_tables.groups.record_status import Status

MAX_OPEN: int = 10_000
"""How much may be unsettled of one partition: records in flight or dying. Between them lie the
acked ranges."""
MAX_WAITING: int = 1_000_000
"""Records that wait for their key, 8 bytes of memory each. So a hot key holds up no other."""
MAX_RANGES: int = 20_000
"""Ranges of offsets that were looked at: what waits lies between them. Each fold writes them."""


def held_back(in_flight: int, waiting: int, ranges: int) -> str | None:
    """Why new records are not looked at; None when they are."""
    if in_flight < MAX_OPEN and waiting < MAX_WAITING and ranges < MAX_RANGES:
        return None
    return (
        f"{in_flight} records are in flight or dying ({MAX_OPEN} at most), {waiting} wait for "
        f"their key ({MAX_WAITING}), between {ranges} ranges that were looked at ({MAX_RANGES}): "
        "settle some"
    )


class OpenRecords:
    """What is open, and how it ends. The caller holds the partition's lock."""

    def __init__(self, policy: RetryPolicy, states: RecordStates = NOTHING) -> None:
        self.policy = policy
        self.scan = states.first_gap
        """The next offset to look at."""
        self.dying: dict[int, Attempt] = {}
        """On their way to the dead-letter topic."""
        self.seen = OffsetSet(states.seen)
        """Offsets that were looked at."""
        self._open: dict[int, Attempt] = {}
        self._delayed = DelayedRecords()
        self._unopened: dict[int, int] = {}
        """Of the delayed ones, by offset: attempts that do not count. Few have any."""
        self._keys = KeyOrder()
        self._in_flight = InFlight(self._open)
        self._returned: list[int] = []
        self._outcomes = Outcomes(states.ends)
        self._load(states)

    def _load(self, states: RecordStates) -> None:
        self._delayed.push_open(states.open)
        for row in states.open[states.open["reason"] != ""].tolist():
            if row[2] == Stage.PARKED and (unopened := unopened_in(row[8])):
                self._unopened[row[0]] = min(unopened, row[1])
        for row in states.open[states.open["stage"] != Stage.PARKED].tolist():
            offset, attempt, stage, until, first_at, key, expires_at, member, reason = row
            one = Attempt(offset, attempt, until, first_at, key, expires_at, member)
            self._open[offset] = one
            if stage == Stage.DYING:
                one.reason, one.nack_reason = parted_reason(reason)
                one.standing, one.written = Standing.DYING, True
                self.dying[offset] = one
            else:
                one.unopened = min(unopened_in(reason), attempt)
                self._in_flight.hold(one)
        for key in states.open["key_hash"].tolist() if self.policy.key_order else ():
            self._keys.hold(key)

    # -- what others ask --------------------------------------------------------------------------

    @property
    def delayed(self) -> int:
        """Records that rest until they are due."""
        return len(self._delayed)

    @property
    def open(self) -> int:
        """Records in flight, returned, settling or dying."""
        return len(self._open)

    @property
    def returned(self) -> int:
        """Records that nobody has any more, about."""
        return len(self._returned)

    @property
    def waiting(self) -> int:
        """Records that wait for their key."""
        return self._keys.waiting

    def counts(self, now: int) -> Counts:
        """What is open, as it is at `now`."""
        return counts_of(self._open.values(), self._delayed, now)

    def held_by(self, member: str) -> int:
        """How many records are in flight at a member."""
        return self._in_flight.held_by(member)

    @property
    def held(self) -> Mapping[str, int]:
        """The same of every member that has any."""
        return self._in_flight.held

    def status(self, offset: int, now: int) -> Status:
        """What the record of that offset is to the group."""
        if (one := self._open.get(offset)) is not None:
            return status_of_attempt(one, now)
        if offset not in self.seen:
            return Status("pending", 0)
        delayed = self._delayed.find(offset)
        return self._outcomes.status(offset) if delayed is None else status_of_delayed(delayed, now)

    @property
    def held_back(self) -> str | None:
        """Why new records are not looked at; None when they are."""
        return held_back(len(self._open), self._keys.waiting, len(self.seen))

    def next_due(self) -> int | None:
        """When something will become deliverable by time alone; None: never."""
        if self._returned or self._keys.has_freed:
            return 0
        times = [
            t for t in (self._delayed.next_due, self._in_flight.next_deadline()) if t is not None
        ]
        return min(times, default=None)

    # -- receipts ---------------------------------------------------------------------------------

    def begin(self, offset: int, attempt: int, now: int) -> Attempt | Refusal:
        """Take hold of an attempt to change it; `finish_…` or `cancel` must follow."""
        one = self._open.get(offset)
        if one is None:
            return self._outcomes.refusal(offset, attempt, seen=offset in self.seen)
        if attempt < one.attempt:
            return Refusal("superseded", attempt, one.attempt)
        if attempt > one.attempt:
            return Refusal("unknown", attempt, one.attempt)
        if one.standing is Standing.DYING:
            return Refusal("settled", attempt, one.attempt)
        if one.standing is Standing.SETTLING:
            return Refusal("busy", attempt, one.attempt)
        if one.deadline <= now:
            return Refusal("timed_out", attempt, one.deadline)
        if one.standing is not Standing.IN_FLIGHT:
            self._in_flight.hold_again(one)
        # It counts as held until the change is durable: its member gets no other in its place.
        one.standing = Standing.SETTLING
        return one

    def was_acked(self, offset: int, attempt: int) -> bool:
        """Whether this very attempt was acked, as far as is remembered: then it is a repeat."""
        return self._outcomes.was_acked(offset, attempt)

    def cancel(self, one: Attempt, now: int) -> None:
        """The change did not become durable, or nobody knows: as before, or due at once."""
        if self._open.get(one.offset) is not one:
            return
        self._in_flight.let_go(one)
        self._in_flight.hold(one)
        if one.deadline <= now:
            self._return(one)

    @staticmethod
    def ack(one: Attempt) -> Move:
        """The fact of an ack; `finish_ack` once it is durable."""
        return Move(Kind.ACKED, one.offset, one.attempt, member=one.member)

    def finish_ack(self, one: Attempt) -> None:
        """Settled for good."""
        self.finish_acks((one,))

    def finish_acks(self, some: Iterable[Attempt]) -> None:
        """The same of many."""
        acked: list[Attempt] = []
        for one in some:
            if self._open.pop(one.offset, None) is one:
                acked.append(one)
                if one.key_hash:
                    self._keys.free(one.key_hash)
        self._in_flight.let_all_go(acked)
        self._outcomes.acked(acked)

    def nack(
        self,
        one: Attempt,
        now: int,
        delay_ms: int | None,
        random: Random,
        *,
        unopened: bool = False,
    ) -> Move:
        """The fact of a nack: delayed, or dying when no attempt is left. Then `finish_nack`.

        `unopened`: nobody has looked at it, so this attempt does not count, and no rest is needed.
        """
        if unopened:
            one.left_unopened()
            delay_ms = delay_ms or 0
        if one.counted >= self.policy.max_attempts:
            reason = reason_with(MAX_ATTEMPTS, one.nack_reason)
            return move_of(Kind.DYING, one)._replace(until=now, reason=reason)
        rest_ms = (
            backoff_ms(self.policy, max(1, one.counted), random) if delay_ms is None else delay_ms
        )
        return move_of(Kind.PARKED, one)._replace(until=now + rest_ms * 1_000)

    def finish_nack(self, one: Attempt, move: Move) -> None:
        """The nack is durable."""
        if self._open.pop(one.offset, None) is not one:
            return
        self._in_flight.let_go(one)
        if move.kind is Kind.DYING:
            self._die(one, MAX_ATTEMPTS, move.until)
            return
        self._outcomes.ended(one, Kind.PARKED)
        if one.unopened:
            self._unopened[one.offset] = one.unopened
        self._delayed.push(
            DelayedRecord(
                move.until, one.offset, one.attempt, one.first_at, one.key_hash, one.expires_at
            )
        )

    @staticmethod
    def extend(one: Attempt, now: int, visibility_ms: int, *, may_shorten: bool = False) -> Move:
        """The fact of an extension: the deadline moves to `visibility_ms` from now.

        It moves back only if it `may_shorten`. A node that takes the partition over goes by the
        latest deadline that the facts name: there the record may be kept for longer.
        """
        until = now + visibility_ms * 1_000
        if not may_shorten:
            until = max(one.deadline, until)
        return move_of(Kind.DELIVERED, one)._replace(until=until)

    def finish_extend(self, one: Attempt, move: Move) -> None:
        """The new deadline is durable."""
        if self._open.get(one.offset) is one:
            self._in_flight.let_go(one)
            one.deadline = move.until
            self._in_flight.hold(one)

    def condemn(self, one: Attempt, now: int) -> None:
        """It cannot be read, so nobody gets it: to the dead letters, whatever attempts are left."""
        if self.is_newest(one):
            self._in_flight.let_go(one)
            self._die(one, UNDECODABLE, now)

    # -- the end ----------------------------------------------------------------------------------

    def finish_dead(self, one: Attempt, dead_letter: str = "") -> None:
        """It stands in the dead-letter topic (there), and the fact *dead* is durable."""
        if self.dying.pop(one.offset, None) is one:
            del self._open[one.offset]
            self._settle(one, Kind.DEAD, dead_letter)

    def _die(self, one: Attempt, reason: str, now: int) -> Move:
        one.standing, one.reason, one.deadline = Standing.DYING, reason, now
        self._open[one.offset] = one
        self.dying[one.offset] = one
        return move_of(Kind.DYING, one)

    def _settle(self, one: Attempt, kind: Kind, dead_letter: str = "") -> None:
        self._outcomes.ended(one, kind, dead_letter)
        if one.key_hash:
            self._keys.free(one.key_hash)

    def _return(self, one: Attempt) -> None:
        self._in_flight.let_go(one)
        one.standing = Standing.RETURNED
        heapq.heappush(self._returned, one.offset)

    def is_newest(self, one: Attempt, standing: Standing = Standing.IN_FLIGHT) -> bool:
        """Whether it is in flight still: no other attempt has followed, nor an end."""
        return self._open.get(one.offset) is one and one.standing is standing
