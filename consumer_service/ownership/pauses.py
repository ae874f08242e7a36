"""What is paused of what this node holds: heard from ZooKeeper, said to be heard, kept to.

Runs in the reconciler's thread, after leases are taken and before anything of theirs is delivered;
`coordination.groups.pauses` says why nobody misses a pause that way.
"""

from __future__ import annotations

import threading

import structlog

from consumer_service.members import Members
from consumer_service.ownership.journal import Journal
from consumer_service.ownership.owned_partition import OwnedPartitions
from coordination.groups.pauses import read_pauses, say_heard
from coordination.zookeeper.session import Session
from queue_rules.groups.pause_rules import PauseRules

log = structlog.get_logger()


class Pauses:
    """For all groups of the node."""

    def __init__(
        self,
        session: Session,
        journal: Journal,
        owned_partitions: OwnedPartitions,
        members: Members,
    ) -> None:
        self._session = session
        self._journal = journal
        self._owned_partitions = owned_partitions
        self._members = members
        self._said: dict[str, tuple[int, str, int]] = {}
        """Group → (change, shard, term of the session) that was last said to be heard."""

    def refresh(self, changed: threading.Event) -> None:
        """Read the rules of every group that is held here; `changed` is set when they change."""
        groups = {owned.key.group for owned in self._owned_partitions.all()}
        for group in groups:
            rules, change = read_pauses(self._session, group, changed)
            self._apply(group, rules)
            word = (change, str(self._journal.shard), self._session.incarnation)
            if change and self._said.get(group) != word:
                say_heard(self._session, group, word[1], change)
                self._said[group] = word
                log.info("pauses.applied", group=group, change=change)
        for group in self._said.keys() - groups:
            del self._said[group]

    def _apply(self, group: str, rules: PauseRules) -> None:
        resumed = False
        for owned in self._owned_partitions.of_group(group):
            paused = rules.paused(owned.topic, owned.key.partition)
            with owned.lock:
                # With the lock: whoever looked before has its records on their way now.
                resumed |= owned.paused and not paused
                owned.paused = paused
        if resumed:
            self._members.wake_groups({group})
