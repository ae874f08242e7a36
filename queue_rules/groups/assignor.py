"""Who consumes which partition: a pure function, sticky and balanced.

Rules, in this order: every partition has exactly one owner among the members that subscribe to
its topic; loads of members with the same subscription differ by at most one; what need not move
does not move; the same input always gives the same answer. With more members than partitions the
surplus members get nothing and stand by.

Cooperative: the answer is a target. A node gives up the leases of what moves away, the new owner
waits for those leases to come free, and what does not move does not stop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class Target(NamedTuple):
    """A partition of a topic's incarnation, as assignments name it."""

    topic: str
    topic_id: str
    partition: int


Assignment = dict[str, list[Target]]
"""Member → its partitions, sorted."""


def assign(
    partitions: Iterable[Target],
    members: Mapping[str, Iterable[str]],
    current: Mapping[str, Sequence[Target]],
) -> Assignment:
    """Share `partitions` among `members` (member → topics it subscribes to).

    `current` is the last assignment; what it says of members or partitions that are gone is
    ignored. Topics that nobody subscribes to stay without an owner.
    """
    share = _Share(partitions, members)
    share.keep(current)
    share.place_orphans()
    share.level()
    return share.result()


class _Share:
    """One computation: who owns what so far, and the loads."""

    def __init__(self, partitions: Iterable[Target], members: Mapping[str, Iterable[str]]) -> None:
        self._topics = {member: frozenset(topics) for member, topics in sorted(members.items())}
        self._partitions = sorted(set(partitions))
        self._owned: dict[str, set[Target]] = {member: set() for member in self._topics}
        self._per_topic: Counter[tuple[str, str]] = Counter()

    def keep(self, current: Mapping[str, Sequence[Target]]) -> None:
        """What each member has and may go on having; of two claimants the first by name wins."""
        free = set(self._partitions)
        for member, wanted in self._topics.items():
            for target in sorted({*current.get(member, ())} & free):
                if target.topic in wanted:
                    free.remove(target)
                    self._give(target, member)

    def place_orphans(self) -> None:
        """Partitions without an owner go to the least loaded member that subscribes."""
        taken = set().union(*self._owned.values()) if self._owned else set()
        for target in self._partitions:
            if target in taken:
                continue
            eligible = [m for m, topics in self._topics.items() if target.topic in topics]
            if eligible:
                self._give(target, min(eligible, key=lambda m: self._burden(m, target.topic)))

    def level(self) -> None:
        """Move one partition at a time from a member to one with at least two fewer.

        Each move lowers the sum of the squared loads, so this ends; when no move is left, members
        with the same subscription are within one of each other.
        """
        while (move := self._next_move()) is not None:
            target, giver, taker = move
            self._owned[giver].remove(target)
            self._per_topic[giver, target.topic] -= 1
            self._give(target, taker)

    def result(self) -> Assignment:
        return {member: sorted(owned) for member, owned in self._owned.items()}

    def _next_move(self) -> tuple[Target, str, str] | None:
        by_load = sorted(self._topics, key=lambda m: (-len(self._owned[m]), m))
        for giver in by_load:
            for taker in reversed(by_load):
                if len(self._owned[giver]) - len(self._owned[taker]) < 2:
                    break
                movable = [t for t in self._owned[giver] if t.topic in self._topics[taker]]
                if movable:
                    # Of the topic that the giver has most of, so that topics spread too.
                    target = max(movable, key=lambda t: (self._per_topic[giver, t.topic], t))
                    return target, giver, taker
        return None

    def _give(self, target: Target, member: str) -> None:
        self._owned[member].add(target)
        self._per_topic[member, target.topic] += 1

    def _burden(self, member: str, topic: str) -> tuple[int, int, str]:
        return (len(self._owned[member]), self._per_topic[member, topic], member)
