"""How much a group still has to do in a partition. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from operator import add
from typing import NamedTuple, TypeAlias

from queue_tables.groups.facts import GroupState
from queue_tables.groups.offset_ranges import Offsets, Ranges, count_from, inside
from queue_tables.groups.record_states import Stage

STAGES: Mapping[str, Stage] = {
    "in_flight": Stage.DELIVERED,
    "parked": Stage.PARKED,
    "dying": Stage.DYING,
}
"""Stages in which records of a queue group are open."""


def open_by_stage(state: GroupState) -> dict[str, int]:
    """Records that are open, by stage; empty for a stream group, which has none."""
    if state.mode != "queue":
        return {}
    stages = state.records.open["stage"]
    return {name: int((stages == stage).sum()) for name, stage in STAGES.items()}


LOOKED_AT = 100_000
"""So many of the newest records of a partition are looked at for when they are due."""
DueTimes: TypeAlias = tuple[Offsets, Offsets, Offsets]
"""Offsets, and when each is due and expires: microseconds; 0 and `NEVER` if at once and never."""


class Counts(NamedTuple):
    """Records of a queue group that are not settled, by what becomes of them."""

    pending: int
    """To be delivered, for the first time or again."""
    in_flight: int
    """With a consumer whose time is not over."""
    parked: int
    """Not due yet."""
    dying: int
    """On their way to the dead-letter topic."""

    def plus(self, other: Counts) -> Counts:
        """Both together."""
        return Counts(*map(add, self, other))


def open_at(state: GroupState, now: int) -> Counts:
    """Records that are open, as they are at `now`: nobody has to have looked at them since."""
    rows = state.records.open
    stages, later = rows["stage"], rows["until"] > now
    held = int(((stages == Stage.DELIVERED) & later).sum())
    parked = int(((stages == Stage.PARKED) & later).sum())
    dying = int((stages == Stage.DYING).sum())
    return Counts(len(rows) - held - parked - dying, held, parked, dying)


def unseen_at(ranges: Ranges, first: int, end: int, dues: DueTimes, now: int) -> Counts:
    """Records from `first` to `end` that are in none of `ranges`, the seen ones.

    `dues` are those that were looked at. What is not due rests, and what has expired does not
    count; what was not looked at counts as due.
    """
    offsets, deliver_at, expires_at = dues
    unseen = ~inside(ranges, offsets) & (offsets >= first) & (offsets < end)
    over = unseen & (expires_at <= now)
    parked = int((unseen & ~over & (deliver_at > now)).sum())
    pending = max(0, end - first - count_from(ranges, first)) - int(over.sum()) - parked
    return Counts(max(0, pending), 0, parked, 0)


def lag_of(state: GroupState | None, first: int, end: int) -> int:
    """Records from `first` (the lowest offset that exists) to `end` that are not settled.

    None: the group has never had the partition. Open records count.
    """
    if state is None:
        return max(0, end - first)
    beyond = max(first, state.committed_offset or 0)
    # With key order some records beyond the position have been seen: they are open, or done.
    seen = count_from(state.records.seen, beyond)
    return max(0, end - beyond - seen) + sum(open_by_stage(state).values())
