"""What the controller has seen of the groups: read again only where ZooKeeper tells of a change.

A look at a thousand groups, of which one has a new member, reads that one. What is to be read is
asked for at once, so a look takes some round trips, however many groups there are.

What members say is as new as the last watch. An assignment is as it was when its group was read:
who writes another does it on the version that was read, and is refused if that is not the newest.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from coordination.groups.membership import group_path, groups
from coordination.zookeeper.session import Session
from queue_rules.groups.assignor import Target

SLOW_POLL_S = 5.0
"""How often everything is read without being told of a change: a watch may have gone missing."""


@dataclass(slots=True)
class CachedGroup:
    """A group, as its nodes say."""

    members: list[bytes]
    assignment: bytes
    """Empty before the first."""
    version: int | None
    """Of the assignment's node; None: there is none."""
    topics: list[str] = field(default_factory=list)
    """Of the members, once somebody has looked."""
    right_for: list[Target] | None = None
    """The partitions of these for which the assignment is right; None: not known to be."""


class _GroupWatch:
    """A group's watch: it notes that the group has changed, and wakes."""

    __slots__ = ("_wake", "due")

    def __init__(self, wake: threading.Event) -> None:
        self.due = True
        self._wake = wake

    def set(self) -> None:
        self.due = True
        self._wake.set()


def to_read(present: Iterable[str], changed: Collection[str], *, anew: bool) -> list[str]:
    """Which of the groups that are there have to be read. Pure."""
    return [group for group in present if anew or group in changed]


class GroupCache:
    """For one thread; `wake` is set when there may be something new.

    Times are seconds of one clock.
    """

    def __init__(self, session: Session, wake: threading.Event) -> None:
        self._session = session
        self._wake = wake
        self.anew_at = float("-inf")
        """When all of them are to be read, whatever was told."""
        self._told: dict[str, _GroupWatch] = {}
        self._seen: dict[str, CachedGroup] = {}

    def refresh(self, now: float) -> dict[str, CachedGroup]:
        """All groups as of now. Raises `CoordinationUnavailable`."""
        anew = now >= self.anew_at
        present = groups(self._session, self._wake)
        self._told = {group: self._told.get(group) or _GroupWatch(self._wake) for group in present}
        self._seen = {group: seen for group, seen in self._seen.items() if group in self._told}
        changed = {group for group, told in self._told.items() if told.due}
        due = to_read(present, changed, anew=anew)
        for group in due:
            # Before it is read: a change from here on is a new one.
            self._told[group].due = False
        try:
            self._read(due)
        except BaseException:
            for group in due:
                self._told[group].due = True
            raise
        if anew:
            self.anew_at = now + SLOW_POLL_S
        return self._seen

    def written(self, group: str, assignment: bytes, version: int) -> None:
        """Its assignment is this one now, by our own hand."""
        self._seen[group] = CachedGroup(self._seen[group].members, assignment, version)

    def invalidate(self, group: str) -> None:
        """It is not as it was seen: read it again, soon."""
        self._told[group].set()

    def _read(self, due: list[str]) -> None:
        session = self._session
        folders = {group_path(session, group, "members"): self._told[group] for group in due}
        names = session.children_of_all(folders)
        members = [
            f"{folder}/{name}" for folder, some in zip(folders, names, strict=True) for name in some
        ]
        assignments = [group_path(session, group, "assignment") for group in due]
        found = session.get_all([*members, *assignments])
        data: list[bytes | None] = [None if node is None else node[0] for node in found]
        at = 0
        for group, some, node in zip(due, names, found[len(members) :], strict=True):
            present = [entry for entry in data[at : at + len(some)] if entry is not None]
            at += len(some)
            self._seen[group] = CachedGroup(present, *_assignment(node))


def _assignment(node: tuple[bytes, Any] | None) -> tuple[bytes, int | None]:
    return (b"", None) if node is None else (node[0], node[1].version)
