"""How many records one poll of a queue group may take, while others ask as well. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

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


@dataclass(slots=True)
class Demand:
    """What is there for a poll, and who else asks, counted partition by partition."""

    member: str
    asking: Collection[str]
    """The members that wait for records, `member` among them."""
    now: int
    available: int = 0
    has: int = 0
    others: int = 0
    late: bool = False

    def count(self, queue: QueuePartition, end: int) -> None:
        """A partition that ends at `end`."""
        self.has += queue.held_by(self.member)
        self.others += sum(queue.held_by(one) for one in self.asking if one != self.member)
        due = queue.next_due()
        is_due = due is not None and due <= self.now
        self.late |= is_due
        self.available += queue.returned + (queue.delayed if is_due else 0)
        self.available += max(0, end - queue.scan)

    def room(self, limit: int, most: int) -> int:
        """How many records the poll may take: `most`, its member's limit, a fair share."""
        share = fair_share(self.available, self.has, self.others, len(self.asking), due=self.late)
        return FULL if share <= 0 < limit - self.has else min(most, limit - self.has, share)
