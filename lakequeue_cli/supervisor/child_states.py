"""The life of a supervised child, as data.

DOWN --a--> STARTING --b--> READY
STARTING, READY --c--> BACKING_OFF --a--> STARTING
STARTING, READY --d--> DRAINING --c--> DOWN
BACKING_OFF --d--> DOWN
STARTING, READY, BACKING_OFF --e--> HELD --a--> STARTING   (tests keep it down on purpose)
"""

from __future__ import annotations

from enum import StrEnum

from lakequeue.errors import LakequeueError


class State(StrEnum):
    """What the supervisor may do with a child."""

    DOWN = "down"
    """No process. It may be started; nothing waits for it."""
    STARTING = "starting"
    """The process lives and is probed until it answers."""
    READY = "ready"
    """The process has answered its probe; it is only watched for its end."""
    BACKING_OFF = "backing off"
    """No process. It is started again when its wait is over."""
    DRAINING = "draining"
    """The process was asked to end, and is killed when it takes too long."""
    HELD = "held"
    """No process, on purpose: it is started again only when somebody says so."""


class Cause(StrEnum):
    """Why a child changes its state; the value is the letter in the diagram."""

    SPAWNED = "a"
    ANSWERED = "b"
    ENDED = "c"
    ASKED_TO_END = "d"
    ENDED_AND_HELD = "e"


TRANSITIONS: dict[tuple[State, Cause], State] = {
    (State.DOWN, Cause.SPAWNED): State.STARTING,
    (State.BACKING_OFF, Cause.SPAWNED): State.STARTING,
    (State.HELD, Cause.SPAWNED): State.STARTING,
    (State.STARTING, Cause.ANSWERED): State.READY,
    (State.STARTING, Cause.ENDED): State.BACKING_OFF,
    (State.READY, Cause.ENDED): State.BACKING_OFF,
    (State.DRAINING, Cause.ENDED): State.DOWN,
    (State.STARTING, Cause.ASKED_TO_END): State.DRAINING,
    (State.READY, Cause.ASKED_TO_END): State.DRAINING,
    (State.BACKING_OFF, Cause.ASKED_TO_END): State.DOWN,
    (State.HELD, Cause.ASKED_TO_END): State.DOWN,
    (State.DOWN, Cause.ASKED_TO_END): State.DOWN,
    (State.DRAINING, Cause.ASKED_TO_END): State.DRAINING,
    (State.STARTING, Cause.ENDED_AND_HELD): State.HELD,
    (State.READY, Cause.ENDED_AND_HELD): State.HELD,
    (State.BACKING_OFF, Cause.ENDED_AND_HELD): State.HELD,
}

ALIVE = frozenset({State.STARTING, State.READY, State.DRAINING})
"""The states in which there is a process."""


def advance(state: State, cause: Cause) -> State:
    """The state after `cause`. A pair that is not in the table is a fault of the supervisor."""
    after = TRANSITIONS.get((state, cause))
    if after is None:
        raise LakequeueError(f"a child that is {state} cannot take {cause.name}")
    return after
