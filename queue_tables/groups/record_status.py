"""What a record is to a group: the answer to "what became of it?". Pure.

| status | meaning |
|---|---|
| pending | not delivered yet, or to be delivered again now |
| in_flight | with a member; in queue groups until a deadline |
| parked | rests until it is due: delayed (attempt 0) or nacked |
| dying | on its way to the dead-letter topic |
| dead | in the dead-letter topic |
| expired | its time to live was over before it was delivered |
| acked | done, or skipped: by a seek, a purge, `from=latest`, retention, a predicate |
| settled | acked, dead or expired: which one is not remembered any more |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakequeue.wire.calls.status import StatusName
from queue_tables.groups.facts import GroupState
from queue_tables.groups.offset_ranges import inside
from queue_tables.groups.record_states import OpenRecord, Stage, parted_reason
from queue_tables.groups.terminal_states import DeadRecord, TerminalStates


@dataclass(frozen=True, slots=True)
class Status:
    """The status of one record in one group; None where it says nothing."""

    status: StatusName
    attempt: int | None = None
    """Queue groups: deliveries so far."""
    member: str | None = None
    """In flight: with whom."""
    until: int | None = None
    """In flight: the deadline; parked: when it is due. Microseconds since 1970."""
    reason: str | None = None
    """Dying, dead: why."""
    dead_letter: str | None = None
    """Dead: where the dead letter stands, `topic/partition@offset`, if it is known."""


ACKED = Status("acked")
EXPIRED = Status("expired")
SETTLED = Status("settled")


def status_of_open(row: OpenRecord, now: int) -> Status:
    """Of a record that is seen and not settled; `now` in microseconds."""
    if row.stage == Stage.DYING:
        return Status("dying", row.attempt, reason=parted_reason(row.reason)[0])
    if row.until <= now:
        return Status("pending", row.attempt)
    if row.stage == Stage.PARKED:
        return Status("parked", row.attempt, until=row.until)
    return Status("in_flight", row.attempt, row.member, row.until)


def status_of_dead(row: DeadRecord) -> Status:
    """Of a record that stands in the dead-letter topic."""
    return Status(
        "dead", row.attempts, reason=row.reason or None, dead_letter=row.dead_letter or None
    )


def status_of_settled(ends: TerminalStates, offset: int) -> Status:
    """Of a record that is settled."""
    dead = ends.dead_at(offset)
    if dead is not None:
        return status_of_dead(dead)
    if inside(ends.expired, np.array([offset]))[0]:
        return EXPIRED
    return ACKED if offset >= ends.known_from else SETTLED


def status_in(state: GroupState | None, offset: int, now: int) -> Status:
    """What the tables say. Of a stream group they know nothing about what is in flight."""
    if state is None:
        return Status("pending")
    if state.mode != "queue":
        below = state.committed_offset is not None and offset < state.committed_offset
        return ACKED if below else Status("pending")
    records = state.records
    at = int(np.searchsorted(records.open["offset"], offset))
    if at < len(records.open) and records.open["offset"][at] == offset:
        return status_of_open(OpenRecord(*records.open[at].tolist()), now)
    if not inside(records.seen, np.array([offset]))[0]:
        return Status("pending", 0)
    return status_of_settled(records.ends, offset)
