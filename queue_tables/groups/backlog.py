"""How much a group still has to do in a partition. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from queue_tables.groups.facts import GroupState
from queue_tables.groups.offset_ranges import count_from
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
