"""What a queue group has done with the records of one partition: a join, offset by offset.

An offset is *unseen*, then *open* (in some attempt, at some stage), then *settled* (acked, dead
or expired) for good, and only ever moves in that direction:

    unseen  <  open (attempt, stage, until)  <  settled

`seen` holds the offsets that are not unseen, as ranges; `open` has a row for each of them that is
not settled. So settled records cost nothing, wherever they lie between open ones. Joining takes
the higher of both sides for each offset: in any order, any grouping, any number of times. `ends`
tells of the newest settled ones which are dead or expired, for whoever asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from queue_tables.groups.offset_ranges import NO_RANGES, Ranges, inside, merged, ranges_of, union
from queue_tables.groups.offset_rows import OffsetRows, furthest
from queue_tables.groups.terminal_states import (
    NO_TERMINAL_STATES,
    DeadRecord,
    TerminalStates,
    join_terminal_states,
)

NEVER: Final = (1 << 63) - 1
"""In `expires_at`: the record does not expire."""


class Stage(IntEnum):
    """Where an open attempt stands; within one attempt a higher stage is the later one."""

    DELIVERED = 0
    """With a consumer, until its deadline `until`."""
    PARKED = 1
    """Given back, or not due for the first time yet: to be delivered from `until` on."""
    DYING = 2
    """On its way to the dead-letter topic."""


STAGE_OF: Final = {
    "delivered": Stage.DELIVERED,
    "parked": Stage.PARKED,
    "dying": Stage.DYING,
}
"""Kinds of facts that say that records are open, and at which stage."""
SETTLES: Final = frozenset({"acked", "dead", "expired"})
"""Kinds of facts that settle records."""
RECORD_KINDS: Final = frozenset(STAGE_OF) | SETTLES


OPEN: Final = np.dtype(
    [
        ("offset", "i8"),
        ("attempt", "i4"),
        ("stage", "i1"),
        ("until", "i8"),
        ("first_at", "i8"),
        ("key_hash", "i8"),
        ("expires_at", "i8"),
        ("member", "O"),
        ("reason", "O"),
    ]
)
"""A row of `open`. Times are microseconds; `first_at` is the first delivery, 0 before it;
`key_hash` is 0 for a record without a key or a group without key order."""
OpenRows: TypeAlias = OffsetRows
NO_ROWS: OpenRows = np.empty(0, OPEN)


def reason_with(reason: str, said: str) -> str:
    """What `reason` of a dying record holds: why it dies, and what its last nack said."""
    return f"{reason}: {said}" if reason and said else reason


def parted_reason(text: str) -> tuple[str, str]:
    """Why a record dies, and what its last nack said, out of `reason_with`."""
    reason, _, said = text.partition(": ")
    return reason, said


_UNOPENED: Final = re.compile(r"unopened ([0-9]{1,9})")


def reason_of_unopened(attempts: int) -> str:
    """What `reason` of a record holds that was delivered and given back unopened so often.

    A release that does not know of it counts these attempts as others. It takes this for a reason
    to die, and what stands behind `: ` for what a nack said; so nothing of it stands there.
    """
    return f"unopened {attempts}" if attempts else ""


def unopened_in(reason: str) -> int:
    """The same, out of it, also if such a release has added what its nack said."""
    said = _UNOPENED.fullmatch(parted_reason(reason)[0])
    return 0 if said is None else int(said[1])


class OpenRecord(NamedTuple):
    """One row of `open`."""

    offset: int
    attempt: int
    stage: int
    until: int
    first_at: int = 0
    key_hash: int = 0
    expires_at: int = NEVER
    member: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class RecordStates:
    """The states of the records of one partition. `open` is sorted by offset, one row each."""

    seen: Ranges
    open: OpenRows
    ends: TerminalStates = NO_TERMINAL_STATES

    @staticmethod
    def settled(*ranges: tuple[int, int]) -> RecordStates:
        """These offsets are settled."""
        return RecordStates(ranges_of(ranges), NO_ROWS)

    @staticmethod
    def died(records: Iterable[DeadRecord]) -> RecordStates:
        """These records are settled: dead."""
        records = list(records)
        seen = ranges_of((one.offset, one.offset + 1) for one in records)
        return RecordStates(seen, NO_ROWS, TerminalStates.died(records))

    @staticmethod
    def expired(*ranges: tuple[int, int]) -> RecordStates:
        """These offsets are settled: expired."""
        return RecordStates(ranges_of(ranges), NO_ROWS, TerminalStates.ran_out(*ranges))

    @staticmethod
    def opened(records: Iterable[OpenRecord]) -> RecordStates:
        """These records are open; of one offset the furthest counts."""
        return states_of_rows(np.array([tuple(r) for r in records], OPEN))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecordStates):
            return NotImplemented
        if not np.array_equal(self.seen, other.seen) or self.ends != other.ends:
            return False
        return bool(self.open.tolist() == other.open.tolist())

    def __hash__(self) -> int:
        return hash((len(self.seen), len(self.open)))

    @property
    def first_gap(self) -> int:
        """The lowest offset that was never seen."""
        starts_at_0 = len(self.seen) and self.seen[0, 0] <= 0
        return int(self.seen[0, 1]) if starts_at_0 else 0

    @property
    def needed_from(self) -> int:
        """The lowest offset that the group still needs: the log must keep it."""
        gap = self.first_gap
        return min(gap, int(self.open["offset"][0])) if len(self.open) else gap


NOTHING: Final = RecordStates(NO_RANGES, NO_ROWS)


def join_records(a: RecordStates, b: RecordStates) -> RecordStates:
    """The least states at or above both."""
    if a is NOTHING or b is NOTHING or a is b:
        return b if a is NOTHING else a
    rows = furthest(np.concatenate((_unsettled(a, b), _unsettled(b, a))))
    return RecordStates(union(a.seen, b.seen), rows, join_terminal_states(a.ends, b.ends))


def states_of_rows(rows: OpenRows) -> RecordStates:
    """States in which `rows` are open; rows in any order, of one offset the furthest counts."""
    rows = furthest(rows)
    offsets = rows["offset"].astype(np.int64)
    return RecordStates(merged(np.stack((offsets, offsets + 1), axis=1)), rows)


def _unsettled(mine: RecordStates, other: RecordStates) -> OpenRows:
    """My open rows without those that are settled in `other`."""
    if not len(mine.open) or not len(other.seen):
        return mine.open
    offsets = np.ascontiguousarray(mine.open["offset"])
    settled = inside(other.seen, offsets)
    if len(other.open) and settled.any():
        at = np.searchsorted(other.open["offset"], offsets)
        at = np.minimum(at, len(other.open) - 1)
        settled &= other.open["offset"][at] != offsets
    return mine.open if not settled.any() else mine.open[~settled]
