"""How settled records ended: which are dead, and which expired; the others were acked. A join.

It is for whoever asks, delivery does not need it, so it is bounded: of each partition the
`MOST_DEAD` highest dead offsets are kept, and the `MOST_EXPIRED` highest expired ones. Keeping the
highest of a union is a join as well: what falls out once would fall out in any order of joining.
A set that is full may have lost what is below it, so there `settled` is all that can be said.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from queue_tables.groups.offset_ranges import NO_RANGES, Ranges, ranges_of, union
from queue_tables.groups.offset_rows import OffsetRows, furthest

MOST_DEAD: int = 10_000
"""Dead records that are kept per partition, with attempts and reason."""
MOST_EXPIRED: int = 100_000
"""Expired records that are kept per partition; as ranges, so mostly a few rows."""

DEAD: Final = np.dtype(
    [("offset", "i8"), ("attempts", "i4"), ("reason", "O"), ("dead_letter", "O")]
)
NO_DEAD: OffsetRows = np.empty(0, DEAD)


class DeadRecord(NamedTuple):
    """One row of `dead`."""

    offset: int
    attempts: int = 0
    """Deliveries made."""
    reason: str = ""
    """max_attempts or expired."""
    dead_letter: str = ""
    """Where the dead letter stands, as `topic/partition@offset`; empty: not known."""


@dataclass(frozen=True, slots=True, eq=False)
class TerminalStates:
    """Dead and expired records of one partition. `dead` is sorted by offset, one row each."""

    dead: OffsetRows
    expired: Ranges

    @staticmethod
    def died(records: Iterable[DeadRecord]) -> TerminalStates:
        """These records are dead."""
        return TerminalStates(_newest(np.array([tuple(r) for r in records], DEAD)), NO_RANGES)

    @staticmethod
    def ran_out(*ranges: tuple[int, int]) -> TerminalStates:
        """These offsets have expired."""
        return TerminalStates(NO_DEAD, last_offsets(ranges_of(ranges), MOST_EXPIRED))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TerminalStates):
            return NotImplemented
        same_expired = np.array_equal(self.expired, other.expired)
        return same_expired and self.dead.tolist() == other.dead.tolist()

    def __hash__(self) -> int:
        return hash((len(self.dead), len(self.expired)))

    @property
    def known_from(self) -> int:
        """Below it, how a settled record ended may have been forgotten."""
        full = [0]
        if len(self.dead) >= MOST_DEAD:
            full.append(int(self.dead["offset"][0]))
        if int((self.expired[:, 1] - self.expired[:, 0]).sum()) >= MOST_EXPIRED:
            full.append(int(self.expired[0, 0]))
        return max(full)

    def dead_at(self, offset: int) -> DeadRecord | None:
        """The row of that offset, if it is dead and known to be."""
        at = int(np.searchsorted(self.dead["offset"], offset))
        if at == len(self.dead) or self.dead["offset"][at] != offset:
            return None
        return DeadRecord(*self.dead[at].tolist())


NO_TERMINAL_STATES: Final = TerminalStates(NO_DEAD, NO_RANGES)


def join_terminal_states(a: TerminalStates, b: TerminalStates) -> TerminalStates:
    """What either knows, within the bounds."""
    if a is NO_TERMINAL_STATES or b is NO_TERMINAL_STATES or a is b:
        return b if a is NO_TERMINAL_STATES else a
    return TerminalStates(
        _newest(np.concatenate((a.dead, b.dead))),
        last_offsets(union(a.expired, b.expired), MOST_EXPIRED),
    )


def last_offsets(ranges: Ranges, most: int) -> Ranges:
    """The `most` highest offsets of a set."""
    if not len(ranges):
        return ranges
    behind = np.cumsum((ranges[:, 1] - ranges[:, 0])[::-1])[::-1]
    if behind[0] <= most:
        return ranges
    # The last range with at least `most` offsets from its start on is the one to cut.
    cut = int(np.flatnonzero(behind >= most)[-1])
    kept = ranges[cut:].copy()
    kept[0, 0] += behind[cut] - most
    return kept


def _newest(rows: OffsetRows) -> OffsetRows:
    return furthest(rows)[-MOST_DEAD:]
