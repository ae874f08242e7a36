"""Members that a node keeps for clients that receive without joining.

Each request borrows one, so that two at once do not share what belongs to one poll. One that is not
borrowed for a session timeout goes, like any silent member; what it has delivered stays with the
client until its deadline, for the client has a receipt, and no membership to lose.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from consumer_service.calls.groups import Groups
from consumer_service.members import Member
from consumer_service.node import Node
from lakequeue.clock import boot_seconds
from lakequeue.wire import MAX_IN_FLIGHT, JoinRequest
from serving.front.parking import Steps, Until

FIRST_S = 3.0
"""How long the first request at a node may take until it has partitions, beyond its own wait."""
LOOK_EVERY_S = 0.25
GONE_S = 2.0


class AnonymousMembers:
    """Thread-safe."""

    def __init__(self, node: Node, groups: Groups) -> None:
        self._node = node
        self._groups = groups
        self._lock = threading.Lock()
        self._idle: defaultdict[tuple[str, frozenset[str]], list[str]] = defaultdict(list)
        """Group, topics → ids of members that nobody has borrowed; some may be gone by now."""

    @contextmanager
    def borrowed(
        self, group: str, topics: Sequence[str], made: Callable[[object], object]
    ) -> Iterator[Member]:
        """A member of the group for one request. Errors, and `made`, are those of a join."""
        kind = group, frozenset(topics)
        member = self._known(kind)
        if member is None:
            request = JoinRequest(topics=list(topics), mode="queue", max_in_flight=MAX_IN_FLIGHT)
            member = self._groups.join_anonymous(group, request, made)
        try:
            yield member
        finally:
            member.visibility_ms = None
            with self._lock:
                self._idle[kind].append(member.member_id)

    def _known(self, kind: tuple[str, frozenset[str]]) -> Member | None:
        while True:
            with self._lock:
                idle = self._idle.get(kind)
                if not idle:
                    self._idle.pop(kind, None)
                    return None
                name = idle.pop()
            member = self._node.members.find(kind[0], name)
            if member is not None:
                return member

    def wait_for_partitions(self, member: Member) -> Steps[None]:
        """A member that has just joined would find nothing, whatever there is."""
        deadline = boot_seconds() + FIRST_S
        while (left := deadline - boot_seconds()) > 0:
            member.wake.clear()
            owned = self._node.owned_partitions.of_group(member.group)
            mine = [one for one in owned if one.topic in member.request.topics]
            if any(one.delivers for one in mine) or self._groups.has_nothing(member):
                return
            yield Until(member.wake, left, LOOK_EVERY_S)

    def dismiss(self, group: str) -> None:
        """Let those of the group go that nobody has borrowed: they are not its members."""
        with self._lock:
            kinds = [kind for kind in self._idle if kind[0] == group]
            names = [name for kind in kinds for name in self._idle.pop(kind)]
        present = [self._node.members.find(group, name) for name in names]
        leaving = [member for member in present if member is not None]
        for member in leaving:
            self._groups.let_go(member)
        for member in leaving:
            member.gone.wait(GONE_S)
