"""Which partitions of a member have something for its poll, and whether an event loop may do it."""

from __future__ import annotations

from collections.abc import Callable

from consumer_service.members import Member
from consumer_service.ownership.owned_partition import OwnedPartition, OwnedPartitions
from consumer_service.reading.tailer import Tailer
from lakequeue.clock import boot_seconds
from queue_rules.predicates.of_group import predicate_in

AT_HAND_BYTES = 256 << 10
"""An event loop makes answers up to this by itself; a thread makes larger ones."""


class Readiness:
    """Thread-safe."""

    def __init__(
        self,
        tailer: Tailer,
        owned_partitions: OwnedPartitions,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        self._tailer = tailer
        self._owned_partitions = owned_partitions
        self._clock = clock

    def at_hand(self, member: Member) -> list[OwnedPartition] | None:
        """What is ready, if a look at it waits for nothing, and makes a small answer.

        Then an event loop may do it.
        """
        size, ready = 0, self._look(member)
        for owned in ready:
            end, delivered = self._tailer.known_end(owned.where), owned.cursor.delivered
            if end is None or predicate_in(owned.options) is not None:
                return None
            if delivered < end:
                if owned.fetching.locked() or owned.rows is not None:
                    return None
                ahead = self._tailer.at_hand(owned.where, delivered, AT_HAND_BYTES)
                if ahead is None:
                    return None
                size += ahead
                if size > AT_HAND_BYTES:
                    return None
        return ready

    def ready(self, member: Member) -> list[OwnedPartition]:
        """What is ready. Waits for the ends of logs that are not known yet."""
        ready = self._look(member)
        for owned in ready:
            self._tailer.end(owned.where)
        return [owned for owned in ready if self.may_give(owned)]

    def may_give(self, owned: OwnedPartition) -> bool:
        """Whether a poll may find something, or has something to move, as far as is known.

        What makes this true has to call `owned.look_again` after it.
        """
        end, cursor = self._tailer.known_end(owned.where), owned.cursor
        return (
            end is None
            or cursor.delivered < end
            or cursor.passes
            or predicate_in(owned.options) is not None
        )

    def _look(self, member: Member) -> list[OwnedPartition]:
        return self._owned_partitions.look(
            member.group, member.member_id, self.may_give, self._clock()
        )
