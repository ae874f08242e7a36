"""The node's journal shard: facts are grouped, committed, and judged against fences.

A taker of one of our partitions commits a *fence* to our shard. It occupies the version that our
next commit wanted, so that commit fails with the fence in hand. What the fence shuts out (facts
of that group and partition under a lower epoch) is dropped and answered as superseded; the rest
is committed again. A sealed shard takes nothing more: a new incarnation is opened, and everything
has to be taken anew.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeVar

import structlog

from lakequeue.clock import HybridClock, boot_seconds
from lakequeue.errors import (
    CommitConflict,
    LakequeueError,
    ShardSealed,
    StorageUnavailable,
    Stored,
)
from lakequeue.records import ShardName
from queue_tables.delta.actions import Commit
from queue_tables.groups.fact_rows import to_arrow
from queue_tables.groups.facts import Fact, Key, Kind
from queue_tables.groups.state import fences_in as said_fences
from queue_tables.root import QueueRoot
from queue_tables.shards.group_commit import GroupCommitter
from queue_tables.shards.shards import ShardWriter, highest_stamp
from serving.front.limits.turns import TURNS
from serving.front.parking import Done, Steps, Until, finish

log = structlog.get_logger()

T = TypeVar("T")

FACT_BYTES = 200
"""What one fact is counted as, against the bound of the group committer."""
MAX_GROUP_BYTES = 1 << 20
MAX_PENDING_BYTES = 8 << 20
RUSH_S = 0.015
"""For so much longer than the linger a commit waits for acks that are just being read."""


COMMIT_TIMEOUT_S = 60.0
"""A commit that takes longer hangs: whoever waits for it is told so."""


def committed(
    future: Future[T], hint: str, stored: Stored | None = "unknown", *, gives_back: bool = False
) -> Steps[T]:
    """What a submission came to. Raises what it failed with, `StorageUnavailable` if it hangs.

    `gives_back`: whoever waits can undo it, see `Until`.
    """
    deadline = boot_seconds() + COMMIT_TIMEOUT_S
    while not future.done() and (left := deadline - boot_seconds()) > 0:
        yield Until(Done(future), left, minds=False, gives_back=gives_back)
    try:
        return future.result(0)
    except TimeoutError:
        raise hangs(hint, stored) from None


def hangs(hint: str, stored: Stored | None) -> StorageUnavailable:
    """A commit takes longer than `COMMIT_TIMEOUT_S`."""
    return StorageUnavailable(
        f"the journal did not commit within {COMMIT_TIMEOUT_S:g} s",
        hint=hint,
        stored=stored,
        retry_after_s=1.0,
    )


def wait_committed(future: Future[T], hint: str, stored: Stored | None = "unknown") -> T:
    """`committed`, waiting in this thread."""
    return finish(committed(future, hint, stored))


@dataclass(slots=True)
class Entry:
    """Facts that one caller wants durable together, and what became of them."""

    facts: list[Fact]
    refused: dict[Key, int] = field(default_factory=dict)
    """Filled before the future is set: the partitions that were fenced, with the newer epoch."""


def fences_in(commits: Iterable[Commit]) -> dict[Key, int]:
    """The highest fence on each partition in commits that others made to our shard. Pure."""
    found: dict[Key, int] = {}
    for commit in commits:
        for group, topic_id, partition, epoch in said_fences(commit.info):
            key = Key(group, topic_id, partition)
            found[key] = max(epoch, found.get(key, 0))
    return found


def judge(
    entries: Sequence[Entry], fences: Mapping[Key, int], taken: Mapping[Key, int]
) -> list[Fact]:
    """The facts that may still be committed; marks the others as refused. Pure.

    `fences` are those met in this shard, `taken` the newest epoch of each partition whose fact
    *taken* stands in it. A fact under another epoch than the one taken here would be in a shard
    that the next taker does not know as a holder, and does not fence: it is refused as well.
    """
    allowed: list[Fact] = []
    now = dict(taken)
    for entry in entries:
        for fact in entry.facts:
            fence = fences.get(fact.key, 0)
            if fact.epoch >= fence and fact.kind is Kind.TAKEN:
                now[fact.key] = fact.epoch
            if fact.epoch < fence or now.get(fact.key) != fact.epoch:
                entry.refused[fact.key] = max(fence, now.get(fact.key, 0))
            else:
                allowed.append(fact)
    return allowed


class Journal:
    """One per node; thread-safe. The two callbacks run in the committer's thread."""

    def __init__(
        self,
        root: QueueRoot,
        node: str,
        linger_ms: float,
        on_sealed: Callable[[], None],
        on_committed: Callable[[int], None],
    ) -> None:
        self._on_committed = on_committed
        self._root = root
        self._node = node
        self._on_sealed = on_sealed
        self._fences: dict[Key, int] = {}
        self._taken: dict[Key, int] = {}
        self._clock = HybridClock(at_least=highest_stamp(root, "journal", node))
        self._writer = ShardWriter.create(root, "journal", node)
        self._lock = threading.Lock()
        self._rushes = 0
        self.timed: Callable[[str, float], None] = lambda _phase, _seconds: None
        """Told how long each phase of a commit took, in the committer's thread."""
        self._committer: GroupCommitter[Entry] = GroupCommitter(
            self._commit,
            linger_ms=linger_ms,
            max_group_bytes=MAX_GROUP_BYTES,
            max_pending_bytes=MAX_PENDING_BYTES,
            name="journal",
            rush_s=RUSH_S,
            # A rush of one call ends with the turn of the loop that has read it.
            eager=False,
        )

    def start(self) -> None:
        """Begin to commit."""
        self._committer.start()

    @property
    def shard(self) -> ShardName:
        """The shard that facts go to now; a new name after a seal."""
        return self._writer.name

    def rush(self, on: bool) -> None:
        """More facts are just being made, which had better come into one commit; or these no more.

        Several may say so at once.
        """
        with self._lock:
            self._rushes += 1 if on else -1
            # In here, so that who says so last has it said last.
            self._committer.rush(self._rushes > 0)

    def submit(self, facts: list[Fact]) -> tuple[Entry, Future[object]]:
        """Queue `facts`. The future ends when they are durable, or with the error.

        After it has ended well, `entry.refused` names partitions whose facts were dropped.
        Raises `Overloaded` past the bound.
        """
        entry = Entry(facts)
        return entry, self._committer.submit(entry, FACT_BYTES * len(facts))

    def commit(self, facts: list[Fact], hint: str) -> dict[Key, int]:
        """Make facts durable of partitions that nobody works on yet; those that were fenced.

        Of partitions that are owned: `consumer_service.ownership.settlement`. Raises as `submit`,
        and what it failed with.
        """
        entry, future = self.submit(facts)
        wait_committed(future, hint)
        return entry.refused

    def close(self) -> None:
        """Commit what is queued, then stop."""
        self._committer.drain()

    def _commit(self, entries: list[Entry]) -> None:
        while True:
            facts = judge(entries, self._fences, self._taken)
            if not facts:
                return
            began = time.perf_counter()
            try:
                # It asks for the interpreter after each of a dozen calls of the system.
                with TURNS:
                    version = self._writer.append(to_arrow(facts), self._clock.next())
            except CommitConflict as conflict:
                for key, epoch in fences_in(conflict.commits).items():
                    self._fences[key] = max(epoch, self._fences.get(key, 0))
                    log.info("journal.fenced", partition=list(key), epoch=epoch)
            except ShardSealed as sealed:
                log.warning("journal.sealed", shard=self._writer.name)
                try:
                    self._writer = ShardWriter.create(self._root, "journal", self._node)
                except LakequeueError as error:
                    # That nothing is in a new shard says nothing of the old one.
                    error.stored = sealed.stored
                    raise
                self._fences, self._taken = {}, {}
                self._on_sealed()
                raise
            else:
                self._taken |= {f.key: f.epoch for f in facts if f.kind is Kind.TAKEN}
                self._on_committed(version)
                for phase, seconds in self._writer.spent.items():
                    self.timed(phase, seconds)
                self.timed("all", time.perf_counter() - began)
                return
