"""How many records one poll of a queue group may take, while others ask as well. Pure."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from queue_rules.queues.partition import QueuePartition


def fair_share(available: int, has: int, others: int, asking: int, *, due: bool = False) -> int:
    """How many of `available` a poll may take, so that all who ask have as many in the end.

    `has`: what its member holds already, `others`: what the other members hold that ask. Whoever
    holds nothing gets one. Members that do not ask wait for nothing, and are not counted. `due`: a
    deadline has passed, perhaps of what is counted as held, so one more look is worth it.
    """
    fair = -(-(available + has + others) // max(1, asking))
    return max(1, fair - has) if due or not has else fair - has


FULL = -1
"""Room of a member that has its fair share already: others may take what is there."""


class _Counted(NamedTuple):
    """What one partition has."""

    available: int
    due: bool
    held: dict[str, int]
    """Member that asks → records in flight at it."""


class Demand:
    """What is there for polls, and who asks, counted partition by partition.

    It serves several polls, one after the other: what one of them has changed in a partition is
    counted anew, and nothing else.
    """

    def __init__(self, asking: Collection[str], now: int) -> None:
        """`asking`: the members that wait for records, those of the polls among them."""
        self._asking = asking
        self._now = now
        self._of: dict[Hashable, _Counted] = {}
        self._available = 0
        self._held = 0

    def count(
        self,
        place: Hashable,
        queue: QueuePartition,
        end: int,
        leaving: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """The partition at this place ends at `end`. A second count replaces the first.

        `leaving`: how many of what members have there they are about to have no more.
        """
        before = self._of.get(place)
        if before is not None:
            self._available -= before.available
            self._held -= sum(before.held.values())
        due = queue.next_due()
        is_due = due is not None and due <= self._now
        available = queue.returned + (queue.delayed if is_due else 0) + max(0, end - queue.scan)
        held = {
            one: many - leaving.get(one, 0)
            for one, many in queue.held.items()
            if one in self._asking
        }
        self._of[place] = _Counted(available, is_due, held)
        self._available += available
        self._held += sum(held.values())

    def took(
        self, place: Hashable, queue: QueuePartition, end: int, member: str, many: int
    ) -> None:
        """A poll of this member has taken so many there, all of them new; nothing was due."""
        before = self._of[place]
        before.held[member] = before.held.get(member, 0) + many
        self._held += many
        available = queue.returned + max(0, end - queue.scan)
        self._available += available - before.available
        self._of[place] = before._replace(available=available)

    def is_due(self, place: Hashable) -> bool:
        """Whether something that was seen before could be delivered again when it was counted."""
        return self._of[place].due

    def room(self, member: str, limit: int, most: int) -> int:
        """How many records a poll may take: `most`, its member's limit, a fair share; `FULL`: none.

        The member has to be one of those that ask.
        """
        parts = self._of.values()
        has = sum([part.held.get(member, 0) for part in parts])
        late = any(part.due for part in parts)
        share = fair_share(self._available, has, self._held - has, len(self._asking), due=late)
        if share <= 0 < limit - has:
            return FULL
        # Two polls of a member at once may have got it more than its limit.
        return max(0, min(most, limit - has, share))
