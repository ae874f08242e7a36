"""What is paused of what this node holds: heard from ZooKeeper, said to be heard, kept to.

Runs in the keeper's thread, after leases are taken and before anything of theirs is delivered;
`coordination.groups.pauses` says why nobody misses a pause that way.
"""

from __future__ import annotations

import threading

import structlog

from consumer_service.members import Members
from consumer_service.ownership.held import Holdings
from consumer_service.ownership.journal import Journal
from coordination.groups.pauses import read_pauses, say_heard
from coordination.zookeeper.session import Session
from queue_rules.groups.pause_rules import PauseRules

log = structlog.get_logger()


class Pauses:
    """For all groups of the node."""

    def __init__(
        self, session: Session, journal: Journal, holdings: Holdings, members: Members
    ) -> None:
        self._session = session
        self._journal = journal
        self._holdings = holdings
        self._members = members
        self._said: dict[str, tuple[int, str, int]] = {}
        """Group → (change, shard, term of the session) that was last said to be heard."""

    def look(self, changed: threading.Event) -> None:
        """Read the rules of every group that is held here; `changed` is set when they change."""
        groups = {held.key.group for held in self._holdings.all()}
        for group in groups:
            rules, change = read_pauses(self._session, group, changed)
            self._apply(group, rules)
            word = (change, str(self._journal.shard), self._session.term)
            if change and self._said.get(group) != word:
                say_heard(self._session, group, word[1], change)
                self._said[group] = word
                log.info("pauses.heard", group=group, change=change)
        for group in self._said.keys() - groups:
            del self._said[group]

    def _apply(self, group: str, rules: PauseRules) -> None:
        resumed = False
        for held in self._holdings.of_group(group):
            paused = rules.paused(held.topic, held.key.partition)
            with held.lock:
                # With the lock: whoever looked before has its records on their way now.
                resumed |= held.paused and not paused
                held.paused = paused
        if resumed:
            self._members.wake_groups({group})
