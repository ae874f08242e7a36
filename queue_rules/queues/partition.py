"""One partition of a queue group: which record goes out next, and what a receipt is worth. Pure.

No I/O and no clock: every call is told the time, in microseconds since 1970, because deadlines
and due times stand in the tables and outlive nodes. A record's life:

    unseen ─ take ─▶ in flight ─ ack ────────────────▶ settled
      │                ▲   │ ├─ nack ──▶ delayed ─┐        ▲
      │ not due yet    │   │ └─ last nack ───────│─▶ dying┘
      └──────▶ delayed ─┴───│─────────────────────┘    ▲
                       ▲   └─ deadline, consumer gone │
                       └──────────── returned ────────┘  (no attempt left)

What changes comes back as `Move`s, to be committed as facts: a delivery *before* its answer leaves,
an ack before its 200. A receipt's change is made in two steps, `begin` and `finish` (or `cancel`),
so that nothing rests on a fact that did not become durable.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from queue_rules.queues import open_records
from queue_rules.queues.attempts import (
    EXPIRED,
    MAX_ATTEMPTS,
    MOST_MOVES,
    Attempt,
    Move,
    NewRecord,
    Standing,
    Taken,
    attempt_of,
    move_of,
)
from queue_rules.queues.delayed import DelayedRecord
from queue_rules.queues.key_order import Waiting
from queue_rules.queues.open_records import OpenRecords
from queue_tables.groups.facts import Kind
from queue_tables.groups.record_states import NEVER


class QueuePartition(OpenRecords):
    """The state. The caller holds the partition's lock."""

    # -- taking -----------------------------------------------------------------------------------

    def take_again(self, now: int, member: str, most: int) -> Taken:
        """Up to `most` records that have been seen before: returned, due, or freed by their key."""
        self._time_out(now)
        taken = Taken()
        while len(taken.deliver) < most and len(taken.moves) < MOST_MOVES:
            if self._returned:
                offset = heapq.heappop(self._returned)
                one = self._open.get(offset)
                if one is not None and one.standing is Standing.RETURNED:
                    del self._open[offset]
                    self._start(taken, now, member, one)
            elif (
                len(self._open) < open_records.MAX_OPEN
                and (due := self._delayed.pop_due(now)) is not None
            ):
                one = attempt_of(due)
                one.unopened = self._unopened.pop(due.offset, 0)
                self._start(taken, now, member, one)
            elif (freed := self._keys.pop_freed()) is not None:
                self._first(taken, now, member, freed)
            else:
                break
        return taken

    def take_new(self, now: int, member: str, most: int, records: Iterable[NewRecord]) -> Taken:
        """Up to `most` of `records`, which are those from `scan` on, in order."""
        taken = Taken()
        rest = iter(records)
        if not self.policy.key_order and self.held_back is None:
            # Nearly always nothing has to be thought about any of them.
            rest = self._take_plain(taken, now, member, most, rest)
        for record in rest:
            if len(taken.deliver) >= most or self.held_back is not None:
                break
            offset, key, deliver_at, expires_at = record
            self.scan = offset + 1
            if offset in self.seen:
                continue
            waiting = Waiting(offset, key if self.policy.key_order else 0, deliver_at, expires_at)
            if self._keys.admit(waiting):
                self._first(taken, now, member, waiting)
        return taken

    def _take_plain(
        self, taken: Taken, now: int, member: str, most: int, records: Iterator[NewRecord]
    ) -> Iterator[NewRecord]:
        """The first of them that can be delivered now and were never seen; the others."""
        until, seen = now + self.policy.visibility_ms * 1_000, self.seen
        deliver, opened = taken.deliver, self._open
        room = min(most, open_records.MAX_OPEN - len(opened))
        first = end = self.scan
        expiry = NEVER
        unseen = not seen.reaches(end)
        for record in records:
            offset, _, deliver_at, expires_at = record
            if (
                len(deliver) >= room
                or deliver_at > now
                or expires_at <= now
                or not (unseen or offset not in seen)
            ):
                records = chain((record,), records)
                break
            if (offset, expires_at) != (end, expiry):
                self._took(taken, first, end)
                first, expiry = offset, expires_at
            one = Attempt(offset, 1, until, now, 0, expires_at, member)
            opened[offset] = one
            deliver.append(one)
            self.scan = end = offset + 1
        self._took(taken, first, end)
        if deliver:
            self._in_flight.hold_new(deliver)
        return records

    def _took(self, taken: Taken, first: int, end: int) -> None:
        """First attempts at neighbours that say the same."""
        if first < end:
            self.seen.add(first, end)
            taken.moves.append(move_of(Kind.DELIVERED, self._open[first])._replace(end=end))

    def _first(self, taken: Taken, now: int, member: str, record: Waiting) -> None:
        """A record whose turn has come for the first time."""
        offset, key, deliver_at, expires_at = record
        self.seen.add(offset, offset + 1)
        if deliver_at > now and expires_at > now:
            self._delayed.push(DelayedRecord(deliver_at, offset, 0, 0, key, expires_at))
            taken.moves.append(Move(Kind.PARKED, offset, 0, deliver_at, 0, key, expires_at))
            return
        self._start(taken, now, member, Attempt(offset, 0, 0, 0, key, expires_at))

    def _start(self, taken: Taken, now: int, member: str, one: Attempt) -> None:
        """The next attempt, unless the record is expired or has none left. It is not in `_open`."""
        if one.expires_at <= now:
            if self.policy.dead_letter_expired:
                taken.moves.append(self._die(one, EXPIRED, now))
            else:
                taken.moves.append(Move(Kind.EXPIRED, one.offset, one.attempt))
                self._settle(one, Kind.EXPIRED)
            return
        if one.counted >= self.policy.max_attempts:
            taken.moves.append(self._die(one, MAX_ATTEMPTS, now))
            return
        # A new object: whoever made the attempt before may still be waiting for its commit.
        until, first = now + self.policy.visibility_ms * 1_000, one.first_at or now
        before = one.unopened
        one = Attempt(
            one.offset, one.attempt + 1, until, first, one.key_hash, one.expires_at, member
        )
        one.unopened = before
        self._open[one.offset] = one
        self._in_flight.hold(one)
        taken.deliver.append(one)
        taken.moves.append(move_of(Kind.DELIVERED, one))

    def _time_out(self, now: int) -> None:
        while (one := self._in_flight.timed_out(now)) is not None:
            self._return(one)

    # -- giving back without a receipt ------------------------------------------------------------

    def give_back(self, attempts: Iterable[tuple[int, int]]) -> None:
        """(offset, attempt): nobody got these deliveries, so they go to another at once.

        They do not count. Their numbers are used up: they may stand in the tables.
        """
        for offset, attempt in attempts:
            one = self._open.get(offset)
            if one is None or one.attempt != attempt:
                continue
            if one.standing is Standing.IN_FLIGHT:
                self._return(one)
            if one.standing is Standing.RETURNED:
                one.left_unopened()

    def news_of_unopened(self) -> list[Attempt]:
        """Those whose newest attempt came back unopened, and what is to be said of them: once.

        Somebody may have just got one, and it is not known whether that will be committed. Of such
        a one the attempt before is said: if the newer one is, that is what counts.
        """
        news: list[Attempt] = []
        for one in self._open.values():
            if one.unopened <= one.told:
                continue
            if one.standing is Standing.RETURNED and not one.opened:
                news.append(one)
            elif one.standing is Standing.IN_FLIGHT:
                news.append(replace(one, attempt=one.attempt - 1))
            one.told = one.unopened
        return news

    def never_left(self, attempts: Iterable[Attempt]) -> None:
        """Nobody can have seen these deliveries: they do not count, their numbers are free."""
        for one in attempts:
            if self.is_newest(one):
                self._return(one)
                one.attempt, one.deadline = one.attempt - 1, 0
                # Of the attempt before, which it stands for now, all is said.
                one.opened = False

    def member_gone(self, member: str) -> list[Attempt]:
        """A consumer is gone: what it holds goes to others at once."""
        if not self._in_flight.held_by(member):
            return []
        gone = [
            one
            for one in self._open.values()
            if one.member == member and one.standing is Standing.IN_FLIGHT
        ]
        for one in gone:
            self._return(one)
        return gone

    # -- the end ----------------------------------------------------------------------------------

    def skip_to(self, offset: int) -> Move | None:
        """Records below `offset` do not exist any more (retention): they count as settled."""
        open_below = [one for one in self._open.values() if one.offset < offset]
        delayed_below = self._delayed.drop_below(offset)
        if self.seen.first_gap >= offset and not open_below and not delayed_below:
            return None
        self.seen.add(0, offset)
        self.scan = max(self.scan, offset)
        for one in open_below:
            if one.standing in (Standing.IN_FLIGHT, Standing.SETTLING):
                self._in_flight.let_go(one)
            del self._open[one.offset]
            self.dying.pop(one.offset, None)
            self._settle(one, Kind.EXPIRED)
        for gone in delayed_below:
            self._unopened.pop(gone.offset, None)
            self._settle(attempt_of(gone), Kind.EXPIRED)
        self._keys.drop_below(offset)
        return Move(Kind.COMMITTED, offset)
