"""The life of a member on its node, as a state machine. Pure.

a  joining → active    its ephemeral node stands in ZooKeeper
b  joining, active → leaving   DELETE by the member
c  active  → leaving   no heartbeat, poll or ack for the session timeout
d  active  → leaving   records are out, and nothing was committed for max_poll_interval
e  joining, active → leaving   the node drains
f  leaving → gone      its partitions are given back and its ephemeral node is removed
g  active  → leaving   the node cannot read the log, and another can
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, assert_never

from lakequeue.errors import UnknownMember

_STUCK: Final = "commit more often, or join with a larger max_poll_interval_ms"


class MemberState(Enum):
    """What a member may do."""

    JOINING = "joining"
    """Wait."""
    ACTIVE = "active"
    """Poll, ack, heartbeat."""
    LEAVING = "leaving"
    """Nothing: every call answers `unknown_member`."""
    GONE = "gone"
    """Nothing; forgotten."""


class Cause(StrEnum):
    """Why a member changes its state; the letters of the module's text."""

    JOINED = "a"
    LEFT = "b"
    SILENT = "c"
    STUCK = "d"
    DRAINED = "e"
    REMOVED = "f"
    UNREADABLE = "g"


_TRANSITIONS: dict[tuple[MemberState, Cause], MemberState] = {
    (MemberState.JOINING, Cause.JOINED): MemberState.ACTIVE,
    (MemberState.JOINING, Cause.LEFT): MemberState.LEAVING,
    (MemberState.JOINING, Cause.DRAINED): MemberState.LEAVING,
    (MemberState.ACTIVE, Cause.LEFT): MemberState.LEAVING,
    (MemberState.ACTIVE, Cause.SILENT): MemberState.LEAVING,
    (MemberState.ACTIVE, Cause.STUCK): MemberState.LEAVING,
    (MemberState.ACTIVE, Cause.DRAINED): MemberState.LEAVING,
    (MemberState.ACTIVE, Cause.UNREADABLE): MemberState.LEAVING,
    (MemberState.LEAVING, Cause.REMOVED): MemberState.GONE,
}


def advance(state: MemberState, cause: Cause) -> MemberState:
    """The state after `cause`; a second reason to leave changes nothing."""
    if (state, cause) in _TRANSITIONS:
        return _TRANSITIONS[state, cause]
    if state in {MemberState.LEAVING, MemberState.GONE} and cause is not Cause.JOINED:
        return state
    raise ValueError(f"{cause.name} ({cause.value}) is not possible in {state.value}")


def explain(cause: Cause) -> str:
    """Why the member was removed, for the answer that it gets."""
    match cause:
        case Cause.LEFT:
            return "it left"
        case Cause.SILENT:
            return "it was silent for longer than its session timeout"
        case Cause.STUCK:
            return "it had records and committed nothing for longer than max_poll_interval_ms"
        case Cause.DRAINED:
            return "its node is stopping"
        case Cause.UNREADABLE:
            return "its node could not read the log"
        case Cause.JOINED | Cause.REMOVED:
            return "it is gone"
        case _:
            assert_never(cause)


def unknown_member(group: str, member_id: str, cause: Cause | None) -> UnknownMember:
    """What a member that has left meets, if it is known why, with what mends that. Pure."""
    reason = "" if cause is None else f": {explain(cause)}"
    stuck = f"; {_STUCK}" if cause is Cause.STUCK else ""
    return UnknownMember(
        f"member {member_id} is not in group {group} on this node{reason}",
        hint=f"join the group again{stuck}",
    )


@dataclass(slots=True)
class Liveness:
    """When a member was last heard of, and when it last made progress. Seconds, one clock."""

    session_timeout_s: float
    max_poll_interval_s: float
    seen: float
    progressed: float
    polls: int = 0
    """Long polls that are waiting: a member that waits is alive."""

    def heard(self, now: float) -> None:
        """A call of the member arrived, or its waiting poll ended."""
        self.seen = max(self.seen, now)

    def progress(self, now: float) -> None:
        """Something was committed, or nothing is out any more."""
        self.progressed = max(self.progressed, now)

    def verdict(self, now: float, *, outstanding: bool) -> Cause | None:
        """Why the member has to go now, or None."""
        if not self.polls and now - self.seen > self.session_timeout_s:
            return Cause.SILENT
        if outstanding and now - self.progressed > self.max_poll_interval_s:
            return Cause.STUCK
        return None
