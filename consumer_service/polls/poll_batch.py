"""What polls of queue groups take, on its way from the log to the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.ownership.settlement import Settlement
from queue_rules.queues.attempts import Attempt, Move, Taken
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
    deliver: list[Attempt] = field(default_factory=list)
    rows: list[pa.Table] = field(default_factory=list)
    """Of `deliver`, in the same order."""
    moves: list[Move] = field(default_factory=list)
    more: bool = False
    bytes: int = 0
    settlement: Settlement | None = None

    def keep_until(self, queue: QueuePartition, deadline: int) -> None:
        """Before it is committed: kept until then (µs), and not as the policy says."""
        keep_until(queue, self.deliver, deadline)
        self.moves = [
            move._replace(until=deadline) if move.kind is Kind.DELIVERED else move
            for move in self.moves
        ]

    def add(self, taken: Taken, rows: pa.Table) -> None:
        self.deliver += taken.deliver
        self.moves += taken.moves
        if rows.num_rows:
            # A slice of no rows would keep all that it is a slice of.
            self.rows.append(rows)
            self.bytes += rows.nbytes


def picked(rows: pa.Table, places: list[int]) -> pa.Table:
    """The rows at these places, which rise."""
    if not places or places[-1] - places[0] + 1 == len(places):
        return rows.slice(places[0] if places else 0, len(places))
    return rows.take(pa.array(places, pa.int64()))
