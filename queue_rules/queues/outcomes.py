"""How records of a partition ended, as far as its owner remembers. Pure.

Attempts of late, so that a repeated receipt is answered as the first one was; and, as in the
tables, which of the settled records are dead or expired: `queue_tables/groups/terminal_states.py`
has the bounds.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from queue_rules.queues.attempts import Attempt, Refusal
from queue_tables.groups import terminal_states
from queue_tables.groups.facts import Kind
from queue_tables.groups.offset_ranges import OffsetSet
from queue_tables.groups.record_status import ACKED, EXPIRED, SETTLED, Status, status_of_dead
from queue_tables.groups.terminal_states import NO_TERMINAL_STATES, DeadRecord, TerminalStates

REMEMBERED: Final = 10_000
"""Receipts whose end is remembered."""


class Outcomes:
    """The caller holds the partition's lock."""

    def __init__(self, ends: TerminalStates = NO_TERMINAL_STATES) -> None:
        self._attempts: OrderedDict[int, tuple[int, Kind]] = OrderedDict()
        rows = [DeadRecord(*row) for row in ends.dead.tolist()]
        self._dead = {row.offset: row for row in rows}
        self._dead_offsets = [row.offset for row in rows]
        """A heap: the lowest is forgotten first."""
        self._expired = OffsetSet(ends.expired)
        self._known_from = ends.known_from

    def ended(self, one: Attempt, kind: Kind, dead_letter: str = "") -> None:
        """An attempt is over: settled (dead: its letter stands there), or delayed."""
        self._attempts[one.offset] = (one.attempt, kind)
        self._attempts.move_to_end(one.offset)
        if len(self._attempts) > REMEMBERED:
            self._attempts.popitem(last=False)
        if kind is Kind.DEAD:
            self._died(DeadRecord(one.offset, one.attempt, one.reason, dead_letter))
        elif kind is Kind.EXPIRED:
            self._expired.add(one.offset, one.offset + 1)
            if len(self._expired) > terminal_states.MOST_EXPIRED:
                self._known_from = max(self._known_from, self._expired.pop_first())

    def acked(self, some: Iterable[Attempt]) -> None:
        """Attempts were acked."""
        attempts = self._attempts
        for one in some:
            attempts.pop(one.offset, None)
            attempts[one.offset] = (one.attempt, Kind.ACKED)
        while len(attempts) > REMEMBERED:
            attempts.popitem(last=False)

    def _died(self, record: DeadRecord) -> None:
        if record.offset not in self._dead:
            heapq.heappush(self._dead_offsets, record.offset)
        self._dead[record.offset] = record
        if len(self._dead) > terminal_states.MOST_DEAD:
            lowest = heapq.heappop(self._dead_offsets)
            del self._dead[lowest]
            self._known_from = max(self._known_from, lowest + 1)

    def was_acked(self, offset: int, attempt: int) -> bool:
        """Whether this very attempt was acked, as far as is remembered."""
        return self._attempts.get(offset) == (attempt, Kind.ACKED)

    def refusal(self, offset: int, attempt: int, *, seen: bool) -> Refusal:
        """Why the receipt of a record that is not open is not good."""
        ended = self._attempts.get(offset)
        if ended is not None and ended[0] >= attempt:
            return Refusal("superseded" if ended[0] > attempt else "settled", attempt, ended[0])
        return Refusal("settled" if seen else "unknown", attempt, None)

    def status(self, offset: int) -> Status:
        """Of a record that is settled."""
        if (dead := self._dead.get(offset)) is not None:
            return status_of_dead(dead)
        if offset in self._expired:
            return EXPIRED
        return ACKED if offset >= self._known_from else SETTLED
