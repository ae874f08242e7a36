"""What an answer to a poll of a stream group holds, and how it is taken back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.reading.columns import InColumns, Part


@dataclass(slots=True)
class StreamPollResult:
    """The records of one answer, and where each partition stood before it."""

    records: list[dict[str, Any]] | InColumns = field(default_factory=list)
    before: list[tuple[OwnedPartition, int, int]] = field(default_factory=list)
    """(partition, epoch, delivered position before this answer)."""
    number: int = 0
    """Number of the poll, of those that say which answer they follow."""
    more: bool = False
    """There is more to look at, even if nothing was found."""

    def keep_only(self, told: Mapping[tuple[str, int], int | None]) -> None:
        """Drop what was gathered under an epoch that is over: `told` is what the answer says."""
        over = {
            place
            for owned, epoch, _ in self.before
            if told.get(place := (owned.topic, int(owned.key.partition))) != epoch
        }
        self._drop(over)

    def leave_paused(self) -> None:
        """Drop what was paused while other partitions were looked through."""
        over: set[tuple[str, int]] = set()
        for owned, epoch, position in [one for one in self.before if one[0].paused]:
            StreamPollResult(before=[(owned, epoch, position)]).take_back()
            self.before.remove((owned, epoch, position))
            over.add((owned.topic, int(owned.key.partition)))
        self._drop(over)

    def _drop(self, over: set[tuple[str, int]]) -> None:
        if isinstance(self.records, InColumns):
            self.records = self.records.without(over)
        elif over:
            self.records = [r for r in self.records if (r["topic"], r["partition"]) not in over]

    def add(self, found: list[dict[str, Any]] | Part) -> None:
        """What a partition gives: a part of columns, or records."""
        self.records += found  # type: ignore[operator] # a part goes to columns, records to records

    def take_back(self) -> None:
        """Nobody got the answer: deliver the same again."""
        for owned, epoch, position in self.before:
            with owned.fetching, owned.lock:
                if owned.epoch == epoch:
                    owned.rewind(position)
