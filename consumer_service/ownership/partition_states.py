"""The life of a partition on a node, as a state machine. Pure.

a  unassigned → leasing     the controller gave it to a member of this node
b  leasing    → fencing     the lease is held, under a new epoch
c  leasing    → unassigned  the assignment was withdrawn while waiting
d  fencing    → leasing     the tables know a higher epoch: the lease is taken anew above it
e  fencing    → reading     every earlier holder's shard carries the fence
f  reading    → owned       the position is known and the fact *taken* is durable
g  fencing, reading → releasing   the take-over failed or was withdrawn
h  owned      → releasing   given to another member, the member left, or the node drains
i  releasing  → unassigned  facts on their way have settled, the lease is given back
j  leasing … releasing → lost     the session ended, a higher epoch fenced us, or our shard
                                  was sealed: nothing of this epoch may be said any more
k  lost       → unassigned  local state is dropped; a new epoch starts from the tables
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import assert_never


class PartitionState(Enum):
    """What the node may do in each state: (deliver, accept acks, hold the lease)."""

    UNASSIGNED = ("unassigned", False, False)
    """Nothing."""
    LEASING = ("leasing", False, False)
    """Ask for the lease, wait for its holder to give it back."""
    FENCING = ("fencing", False, False)
    """Commit fences to the shards of earlier holders."""
    READING = ("reading", False, False)
    """Read the position, commit *taken*."""
    OWNED = ("owned", True, True)
    """Deliver and accept acks, while the session is trusted."""
    RELEASING = ("releasing", False, True)
    """Accept acks of what is out for a moment, deliver nothing, then give the lease back."""
    LOST = ("lost", False, False)
    """Refuse everything; drop the local state."""

    def __init__(self, label: str, delivers: bool, accepts_acks: bool) -> None:
        self.label = label
        self.delivers = delivers
        self.accepts_acks = accepts_acks


class Cause(StrEnum):
    """Why a partition changes its state; the letters of the module's text."""

    ASSIGNED = "a"
    LEASED = "b"
    WITHDRAWN = "c"
    OUTNUMBERED = "d"
    FENCED_OTHERS = "e"
    TAKEN = "f"
    TAKEOVER_ENDED = "g"
    GIVEN_AWAY = "h"
    RELEASED = "i"
    LOST = "j"
    DROPPED = "k"


S = PartitionState
TRANSITIONS: dict[Cause, tuple[frozenset[PartitionState], PartitionState]] = {
    Cause.ASSIGNED: (frozenset({S.UNASSIGNED}), S.LEASING),
    Cause.LEASED: (frozenset({S.LEASING}), S.FENCING),
    Cause.WITHDRAWN: (frozenset({S.LEASING}), S.UNASSIGNED),
    Cause.OUTNUMBERED: (frozenset({S.FENCING}), S.LEASING),
    Cause.FENCED_OTHERS: (frozenset({S.FENCING}), S.READING),
    Cause.TAKEN: (frozenset({S.READING}), S.OWNED),
    Cause.TAKEOVER_ENDED: (frozenset({S.FENCING, S.READING}), S.RELEASING),
    Cause.GIVEN_AWAY: (frozenset({S.OWNED}), S.RELEASING),
    Cause.RELEASED: (frozenset({S.RELEASING}), S.UNASSIGNED),
    Cause.LOST: (
        frozenset({S.LEASING, S.FENCING, S.READING, S.OWNED, S.RELEASING}),
        S.LOST,
    ),
    Cause.DROPPED: (frozenset({S.LOST}), S.UNASSIGNED),
}


def advance(state: PartitionState, cause: Cause) -> PartitionState:
    """The state after `cause`; `ValueError` when the table has no such transition."""
    sources, target = TRANSITIONS[cause]
    if state not in sources:
        raise ValueError(f"{cause.name} ({cause.value}) is not possible in {state.label}")
    return target


def describe(state: PartitionState) -> str:
    """One phrase for people, in a poll's or describe's explanation."""
    match state:
        case S.UNASSIGNED:
            return "not assigned here"
        case S.LEASING:
            return "waiting for the lease"
        case S.FENCING:
            return "fencing earlier owners"
        case S.READING:
            return "reading the position"
        case S.OWNED:
            return "owned"
        case S.RELEASING:
            return "being given back"
        case S.LOST:
            return "lost to a newer owner"
        case _:
            assert_never(state)
