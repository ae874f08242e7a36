"""The members of this node: joined by a call, alive by calls, gone by silence.

A member lives in the memory of one node and as an ephemeral node in ZooKeeper. When the node
restarts its members are unknown, and join again.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import structlog

from lakequeue.clock import boot_seconds
from lakequeue.errors import NotReady
from lakequeue.records import TopicId
from lakequeue.wire import JoinRequest
from queue_access.rights import Kind, Right, Rights
from queue_rules.groups.member_names import member_id_of
from queue_rules.groups.member_states import (
    Cause,
    Liveness,
    MemberState,
    advance,
    explain,
    unknown_member,
)
from serving.front.parking import Wake

log = structlog.get_logger()

REMEMBERED = 1_000
"""How many gone members are remembered, so that a late call is told why."""


class Answer(Protocol):
    """The records of one answer, whatever the mode of their group."""

    def take_back(self) -> None:
        """Nobody got the answer: others get the records, at once."""


class SentEvents(Protocol):
    """What left in events, so that what did not arrive can be given back."""

    def add(self, delivered: Any) -> None:
        """These leave now."""

    def begin(self, last: str | None) -> Answer:
        """A stream begins, whose client got `last` last; what it did not get."""


@dataclass(eq=False)
class Polls:
    """The polls of one member that say which answer they follow; `lock` makes them take turns.

    An answer that was lost on the way has moved the cursors all the same. So a poll names the last
    answer that arrived, and what was delivered in any later one is taken back first.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    begun: int = 0
    """Number of the newest poll; an older one that is still waiting delivers nothing any more."""
    answered: list[tuple[int, Answer]] = field(default_factory=list)
    """Answers with records that no later poll has confirmed, in order, with their numbers."""
    streams: int = 0
    """Number of the newest stream of events; an older one delivers nothing any more."""
    sent: SentEvents | None = None
    """Queue groups: what left in events."""

    def begin(self, after: int) -> int:
        """Number of a new poll that follows the answer `after`. Call with `lock` held."""
        for number, delivered in reversed(self.answered):
            if number > after:
                delivered.take_back()
        self.answered.clear()
        self.begun += 1
        return self.begun


class Told:
    """What the answers to one member have told of its assignment. Thread-safe.

    A client that asks for minimal answers is not told again what it knows: it has got an answer
    (`after`) that is at least as new as the one that told it, and nothing else was told since.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._digest = b""
        """Of the rows, which a member may have thousands of."""

    def knows(self, after: int | None, number: int, digest: bytes) -> bool:
        """Whether the answer `number` may leave out the rows of that digest; if not, it tells them.

        `after` is None if it has to tell them.
        """
        with self._lock:
            if after is not None and 0 < self._number <= after and digest == self._digest:
                return True
            if number > self._number:
                # The answer of an older poll may never be read: it changes nothing here.
                self._number, self._digest = number, digest
            return False


@dataclass(eq=False)
class Member:
    """One member at run time."""

    group: str
    member_id: str
    request: JoinRequest
    session_timeout_ms: int
    liveness: Liveness
    host: str = ""
    options: str = ""
    """Queue groups: the options of the group, JSON."""
    anonymous_member: bool = False
    """For clients that have not joined: what it has delivered is theirs when it is gone."""
    visibility_ms: int | None = None
    """Queue groups: how long what it polls now is kept; None: as the group says."""
    latest_below: dict[TopicId, int] = field(default_factory=dict)
    """topic_id → partitions below this one start at latest if nothing was ever committed."""
    state: MemberState = MemberState.JOINING
    wake: Wake = field(default_factory=Wake)
    quiet: threading.Event = field(default_factory=threading.Event)
    """Set while none of its polls is served."""
    gone: threading.Event = field(default_factory=threading.Event)
    """Set once nothing is left of it, here and in ZooKeeper."""
    parking: threading.Lock = field(default_factory=threading.Lock)
    polls: Polls = field(default_factory=Polls)
    told: Told = field(default_factory=Told)
    turn: int = 0
    """Rotates over the partitions, so that a busy one does not starve the others."""
    allowed: Rights | None = None
    """Of the last caller who was found to have what it `needs`."""

    @cached_property
    def needs(self) -> tuple[tuple[Right, Kind, str], ...]:
        """What its caller must be allowed."""
        return tuple((Right.CONSUME, Kind.TOPIC, topic) for topic in self.request.topics)

    def __post_init__(self) -> None:
        self.quiet.set()

    @contextmanager
    def polling(self) -> Iterator[None]:
        """While one of its polls waits, the member is alive."""
        with self.parking:
            self.liveness.polls += 1
            self.quiet.clear()
        try:
            yield
        finally:
            with self.parking:
                self.liveness.polls -= 1
                if not self.liveness.polls:
                    self.quiet.set()

    def end_polls(self, after: int, timeout_s: float) -> None:
        """Its client takes no answer later than `after`. What they had is given back, and what a
        poll has just taken as well, before anybody hears that the member goes."""
        with self.polls.lock:
            self.polls.begin(after)
        self.wake.set()
        self.quiet.wait(timeout_s)

    @property
    def active(self) -> bool:
        """Whether it may poll and ack."""
        return self.state is MemberState.ACTIVE


def _stopping() -> NotReady:
    return NotReady("this node is stopping", hint="join through another node")


class Present(NamedTuple):
    """The members of a node at one instant, apart from those that join."""

    active: list[Member]
    leaving: list[Member]


class Members:
    """All members of the node. Thread-safe."""

    def __init__(self, session_timeout_ms: int, max_poll_interval_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._max_poll_interval_ms = max_poll_interval_ms
        self._lock = threading.Lock()
        self._members: dict[tuple[str, str], Member] = {}
        self._gone: dict[tuple[str, str], Cause] = {}
        self._closed = False

    def new(self, group: str, request: JoinRequest, host: str) -> Member:
        """A member in state joining. Raises `NotReady` when the node is stopping."""
        now = boot_seconds()
        timeout_ms = request.session_timeout_ms or self._session_timeout_ms
        poll_ms = request.max_poll_interval_ms or self._max_poll_interval_ms
        member = Member(
            group,
            member_id_of(host, uuid.uuid4().hex),
            request,
            timeout_ms,
            Liveness(timeout_ms / 1000, poll_ms / 1000, now, now),
            host,
        )
        with self._lock:
            if self._closed:
                raise _stopping()
            self._members[group, member.member_id] = member
        return member

    def joined(self, member: Member) -> None:
        """Its ephemeral node stands. Raises `NotReady` when the node began to stop meanwhile."""
        with self._lock:
            if member.state is not MemberState.JOINING:
                raise _stopping()
            member.state = advance(member.state, Cause.JOINED)

    def get(self, group: str, member_id: str) -> Member:
        """The active member, which has just been heard of. Raises `UnknownMember`."""
        with self._lock:
            member = self._members.get((group, member_id))
            if member is not None and member.active:
                member.liveness.heard(boot_seconds())
                return member
            cause = self._gone.get((group, member_id))
        raise unknown_member(group, member_id, cause)

    def leave(self, member: Member, cause: Cause) -> None:
        """Stop serving the member; the reconciler gives its partitions back."""
        with self._lock:
            before, member.state = member.state, advance(member.state, cause)
            if before is not member.state:
                self._gone[member.group, member.member_id] = cause
                while len(self._gone) > REMEMBERED:
                    self._gone.pop(next(iter(self._gone)))
                log.info(
                    "member.left",
                    group=member.group,
                    member=member.member_id,
                    reason=explain(cause),
                )
        member.wake.set()

    def works_on(self, member: Member) -> bool:
        """Whether it goes for the node's sake: what it has is worked on, and it joins elsewhere."""
        cause = self._gone.get((member.group, member.member_id))
        return cause in {Cause.DRAINED, Cause.UNREADABLE}

    def removed(self, member: Member) -> None:
        """Its partitions are given back and its ephemeral node is gone."""
        with self._lock:
            member.state = advance(member.state, Cause.REMOVED)
            self._members.pop((member.group, member.member_id), None)
        member.gone.set()

    def all(self) -> list[Member]:
        """A snapshot, of every state."""
        with self._lock:
            return list(self._members.values())

    def want(self, topic: str) -> bool:
        """Whether any of them has joined for it."""
        return any(topic in member.request.topics for member in self.all())

    def by_state(self) -> Present:
        """Who is active and who leaves, at one instant."""
        with self._lock:
            members = list(self._members.values())
            return Present(
                [member for member in members if member.active],
                [member for member in members if member.state is MemberState.LEAVING],
            )

    def expire(self, outstanding: Callable[[Member], bool]) -> list[Member]:
        """The members that have to go now, moved to leaving."""
        now = boot_seconds()
        gone: list[Member] = []
        for member in self.all():
            if not member.active:
                continue
            cause = member.liveness.verdict(now, outstanding=outstanding(member))
            if cause is not None:
                self.leave(member, cause)
                gone.append(member)
        return gone

    def close(self) -> None:
        """Take no new members, and let all leave: the node drains."""
        with self._lock:
            self._closed = True
        for member in self.all():
            self.leave(member, Cause.DRAINED)

    def find(self, group: str, member_id: str) -> Member | None:
        """The member if it is active here; it has just been heard of."""
        with self._lock:
            member = self._members.get((group, member_id))
            if member is None or not member.active:
                return None
            member.liveness.heard(boot_seconds())
            return member

    def wake_groups(self, groups: set[str]) -> None:
        """Let all waiting polls of these groups look again."""
        for member in self.all():
            if member.group in groups:
                member.wake.set()

    def wake_all(self) -> None:
        """Let all waiting polls look again."""
        for member in self.all():
            member.wake.set()

    def wake(self, member_ids: set[str]) -> None:
        """Let the waiting polls of these members look again."""
        for member in self.all():
            if member.member_id in member_ids:
                member.wake.set()
