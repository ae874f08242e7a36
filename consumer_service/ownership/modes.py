"""What differs between stream groups and queue groups where partitions change hands: an interface.

`streams/mode.py` and `queues/mode.py` implement it. Nothing else asks which mode a group has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.ownership.positions import Consumed, Position
from queue_tables.groups.facts import GroupState, Key


class Mode(Protocol):
    """One mode, as ownership sees it."""

    def holder(self, member_id: str) -> str:
        """Who has the partitions of a member: itself, or the node for all that joined here."""

    def consumed(
        self, state: GroupState | None, key: Key, marks: Mapping[str, int]
    ) -> Consumed | None:
        """What transforms have consumed, if that counts in this mode."""

    def open(self, owned: OwnedPartition, state: GroupState | None, position: Position) -> None:
        """A partition was taken over: it can be delivered from `position` on. Its lock is held."""

    def taken(self, some: Sequence[OwnedPartition]) -> None:
        """Partitions were taken over: wake who waits for them."""

    def grown(self, some: Sequence[OwnedPartition]) -> None:
        """Records have come to these partitions: wake who waits for them."""


Modes = Mapping[str, Mode]
"""By name: stream, queue."""


def by_mode(
    modes: Modes, some: Sequence[OwnedPartition]
) -> list[tuple[Mode, list[OwnedPartition]]]:
    """The partitions, by the mode of their groups. Pure."""
    return [(mode, [h for h in some if h.mode == name]) for name, mode in modes.items()]
