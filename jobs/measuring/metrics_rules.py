"""What an hour came to, as pure functions: which hours are over, who was where at their end.

Rates are differences of positions at the ends of hours. So what the log and the groups went through
is in exactly one hour, whatever a slow process writes late, and the hours of a table add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from jobs.maintenance.shard_rules import CLOSED_AFTER_US
from lakequeue.clock import Micros
from lakequeue.records import Offset
from queue_tables.groups.facts import GroupState
from queue_tables.groups.offset_ranges import NO_RANGES, Ranges, inside, merged, union

HOUR_US = 3_600 * 1_000_000
FACTS_KEPT_US = 3_300 * 1_000_000
"""Facts this young are in the journals: retention leaves them there for an hour."""


def due_hours(done: int | None, first: int | None, now: Micros, most: int) -> range:
    """The hours to measure now, as hours since 1970: those that are over, the oldest first.

    `done` is the last one measured, `first` the first one with anything in it.
    """
    end = (now - CLOSED_AFTER_US) // HOUR_US
    start = first if done is None else done + 1
    return range(0) if start is None else range(start, min(end, start + most))


@dataclass(frozen=True, slots=True)
class Position:
    """How far a group is: the number of records it has done with, from offset 0 on."""

    generation: int
    consumed: int


@dataclass(frozen=True, slots=True)
class Moves:
    """The facts about one partition in one group, by columns; not in order.

    `settles`: offsets [start, end) are done with (queue groups). Else it commits or seeks `start`.
    """

    at: npt.NDArray[np.int64]
    generation: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    settles: npt.NDArray[np.bool_]

    def settled(self, after: Micros, until: Micros | None, generation: int) -> Ranges:
        """What was settled in (after, until]."""
        chosen = self.settles & (self.at > after) & (self.generation == generation)
        if until is not None:
            chosen &= self.at <= until
        return merged(np.stack((self.start[chosen], self.end[chosen]), axis=1))

    def newest(self, until: Micros) -> tuple[int, int] | None:
        """The furthest (generation, offset) that was committed by then."""
        chosen = ~self.settles & (self.at <= until)
        pairs = zip(self.generation[chosen].tolist(), self.start[chosen].tolist(), strict=True)
        return max(pairs, default=None)

    def moved(self, after: Micros) -> bool:
        """Whether there was a commit or a seek after that."""
        return bool((~self.settles & (self.at > after)).any())


_NONE = np.empty(0, np.int64)
NO_MOVES = Moves(_NONE, _NONE, _NONE, _NONE, np.empty(0, bool))


def position_at(
    state: GroupState,
    moves: Moves,
    at: Micros,
    floor: Micros,
    previous: Position | None,
    first: Offset,
) -> Position | None:
    """Where a group was at that time; None if it cannot be told any more, or was not there.

    `state` is as of now, and `moves` were read after it; they are complete from `floor` on.
    `previous` is an hour before `at`. Who has committed nothing is at `first`.
    """
    quiet = state.changed_at <= at
    if not quiet and at < floor:
        return None
    if state.is_queue:
        if not quiet and moves.moved(at):
            return None
        later = NO_RANGES if quiet else moves.settled(at, None, state.generation)
        seen, open_ = state.records.seen, state.records.open["offset"].astype(np.int64)
        # What was settled behind our reading of the state is no part of it.
        undone = _count(later) + _count(seen) - _count(union(later, seen))
        undone -= int(inside(later, open_).sum())
        return Position(state.generation, _count(seen) - len(open_) - undone)
    if quiet:
        offset = state.committed_offset
        return Position(state.generation, int(first if offset is None else offset))
    known = [] if previous is None else [(previous.generation, previous.consumed)]
    if (newest := moves.newest(at)) is not None:
        known.append(newest)
    return Position(*max(known)) if known else None


def consumed_between(
    state: GroupState,
    moves: Moves,
    previous: Position | None,
    position: Position | None,
    hour: tuple[Micros, Micros],
) -> tuple[int | None, Ranges | None]:
    """(how many records, which offsets) a group has done with in an hour; None: not known.

    Which ones a queue group settled is known while all of the hour's facts are there.
    """
    if previous is None or position is None or previous.generation != position.generation:
        return None, None
    count = max(0, position.consumed - previous.consumed)
    if not state.is_queue:
        return count, merged(np.array([[previous.consumed, position.consumed]], np.int64))
    which = moves.settled(*hour, state.generation)
    return count, which if _count(which) == count else None


def _count(ranges: Ranges) -> int:
    return int((ranges[:, 1] - ranges[:, 0]).sum())


@dataclass(slots=True)
class RequestedRanges:
    """Offsets of one partition whose bytes are asked for, each under a name."""

    ranges: Mapping[str | None, Ranges]
    bytes: dict[str | None, int] = field(default_factory=dict)

    def all(self) -> Ranges:
        """What has to be read."""
        return merged(np.concatenate([NO_RANGES, *self.ranges.values()]))

    def add(self, first: Offset | int, sizes: npt.NDArray[np.int64]) -> None:
        """The bytes of the records from offset `first` on."""
        sums = np.concatenate(([0], np.cumsum(sizes)))
        for name, ranges in self.ranges.items():
            inside = np.clip(ranges - int(first), 0, len(sizes))
            total = int((sums[inside[:, 1]] - sums[inside[:, 0]]).sum())
            self.bytes[name] = self.bytes.get(name, 0) + total


def ends_by(parts: Iterable[tuple[int, Offset]], hour: int, at_least: int) -> int:
    """Next offset at the end of an hour, of (hour, last offset) of the files of a partition."""
    return max((int(last) + 1 for when, last in parts if when <= hour), default=at_least)
