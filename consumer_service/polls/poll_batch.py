"""What polls of queue groups take, on its way from the log to the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.ownership.settlement import Settlement
from queue_rules.queues.attempts import Attempt, Move, Taken, move_of
from queue_rules.queues.partition import QueuePartition
from queue_rules.queues.receipts import keep_until
from queue_tables.groups.facts import Kind


@dataclass(slots=True)
class QueuePollResult:
    """The records of one answer, and the attempts that they are."""

    records: list[dict[str, Any]] = field(default_factory=list)
    taken: list[tuple[OwnedPartition, int, list[tuple[int, int]]]] = field(default_factory=list)
    """(partition, epoch, [(offset, attempt)])"""
    number: int = 0
    more: bool = False
    """There is more to look at, even if nothing was found."""
    news: Callable[[], object] = lambda: None

    def take_back(self) -> None:
        """Nobody got the answer: others get the records, at once."""
        for owned, epoch, attempts in self.taken:
            with owned.lock:
                if owned.epoch == epoch and owned.queue is not None:
                    owned.queue.give_back(attempts)
        self.news()

    def keep_only(self, _told: Mapping[tuple[str, int], int | None]) -> None:
        """Every one of them: an attempt is good whoever owns its partition now."""


@dataclass(slots=True)
class PartitionBatch:
    """What was taken of one partition, on its way into the journal."""

    owned: OwnedPartition
    epoch: int
    queue: QueuePartition | None
    """What it was taken of. A purge puts another in its place."""
    deliver: list[Attempt] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    """Of `deliver`, in the same order, as they are without a delivery."""
    moves: list[Move] = field(default_factory=list)
    more: bool = False
    bytes: int = 0
    settlement: Settlement | None = None
    """Where its facts are on their way; None: they are not."""

    @property
    def stands(self) -> bool:
        """Whether the partition is still what it was taken of. Its lock is held."""
        return self.owned.epoch == self.epoch and self.owned.queue is self.queue

    def keep_until(self, queue: QueuePartition, deadline: int) -> None:
        """Before it is committed: kept until then (µs), and not as the policy says."""
        keep_until(queue, self.deliver, deadline)
        self.moves = [
            move._replace(until=deadline) if move.kind is Kind.DELIVERED else move
            for move in self.moves
        ]

    def keep_newest(self) -> None:
        """Drop what went to another since it was taken: its time was over. As `stands`."""
        queue, places = self.queue, range(len(self.deliver))
        if queue is None or all(map(queue.is_newest, self.deliver)):
            return
        kept = [place for place in places if queue.is_newest(self.deliver[place])]
        self.deliver = [self.deliver[place] for place in kept]
        self.records = [self.records[place] for place in kept]
        # One of them may be of several records.
        others = [move for move in self.moves if move.kind is not Kind.DELIVERED]
        self.moves = others + [move_of(Kind.DELIVERED, one) for one in self.deliver]

    def add(self, taken: Taken, records: Iterable[dict[str, Any]], size: int) -> None:
        """Records of these deliveries, of so many bytes."""
        self.deliver += taken.deliver
        self.moves += taken.moves
        self.records += records
        self.bytes += size
