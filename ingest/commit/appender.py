"""The one committer of this process's inbox shard: stamps a group, commits it, ends up durable."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from ingest.commit.draining import refuse_if_changed
from ingest.commit.inbox_table import to_table
from ingest.commit.pending_offsets import PendingOffsets, Ticket
from lakequeue.clock import HybridClock, WallClock
from lakequeue.errors import (
    LakequeueError,
    RootUnusable,
    ShardSealed,
    StorageUnavailable,
    TopicClosed,
)
from lakequeue.records import ShardName, Stamp, Version
from lakequeue.steps import Step, reach
from queue_rules.produce.rows import Request
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import ShardWriter
from queue_tables.topics import TopicStore

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Submission:
    """A request on its way into a group, one part a topic; `ticket` if it waits to be ordered."""

    parts: Sequence[Request]
    ticket: Ticket | None = None
    at: float = field(default_factory=time.perf_counter)


@dataclass(frozen=True, slots=True)
class Committed:
    """A durable group: what each of its requests is answered with."""

    shard: ShardName
    stamp: Stamp
    version: Version
    rows: int
    bytes: int
    spent: Mapping[str, float]
    """Seconds by phase: gathering, writing, committing, all."""


class Appender:
    """Owns the shard and the clock; `commit` is called by the group committer's thread alone."""

    def __init__(
        self,
        root: QueueRoot,
        node: str,
        clock: HybridClock,
        pending_offsets: PendingOffsets,
        topics: TopicStore,
        wall: WallClock,
    ) -> None:
        self._root = root
        self._node = node
        self._clock = clock
        self._pending_offsets = pending_offsets
        self._topics = topics
        self._wall = wall
        self._writer = self._open()
        self._failure: LakequeueError | None = None
        self.on_committed: Callable[[Committed], None] = lambda _: None
        self.incarnations = 1

    def _open(self) -> ShardWriter:
        """A new shard. What goes into it is placed by topics that were read after its birth."""
        writer = ShardWriter.create(self._root, "inbox", self._node)
        self._topics.refresh()
        return writer

    def _open_another(self, shard: ShardName, sealed: ShardSealed) -> None:
        try:
            self._writer = self._open()
        except LakequeueError as error:
            # That nothing is in a new shard says nothing of the old one.
            error.stored = sealed.stored
            raise
        self.incarnations += 1
        log.warning("shard.replaced", sealed=shard, opened=self._writer.name)

    def _check(self, parts: Sequence[Request]) -> None:
        # Once for all that were placed alike: a group has hundreds of them.
        placed = {(part.topic_id, part.placed_among): part for part in parts}
        refuse_if_changed(placed.values(), self._topics, self._wall())

    @property
    def shard(self) -> ShardName:
        """The shard that takes the next group."""
        return self._writer.name

    @property
    def newest_stamp(self) -> Stamp:
        """The newest stamp given or seen."""
        return self._clock.last

    @property
    def failure(self) -> LakequeueError | None:
        """Why the newest commit failed; None if it did not."""
        return self._failure

    def commit(self, group: list[Submission]) -> Committed:
        """Commit a group, durable when this returns.

        Raises `StorageFull` or `StorageUnavailable`, with `stored` "no", or "unknown" when it
        could not be found out; `TopicClosed`: a topic has changed since the group was placed.
        """
        parts = [part for submission in group for part in submission.parts]
        self._check(parts)
        started = time.perf_counter()
        self._clock.observe(max([part.after for part in parts]))
        stamp = self._clock.next()
        reach(Step.INGEST_SEALED)
        try:
            version = self._append(group, parts, stamp)
        except TopicClosed:
            # Nothing is wrong with the storage.
            raise
        except LakequeueError as e:
            self._failure = _answerable(e)
            log.warning("group_commit.failed", error=self._failure.detail, code=e.code)
            raise self._failure from e
        self._failure = None
        rows = sum([len(part.rows.values) for part in parts])
        size = sum([sum(part.rows.sizes) for part in parts])
        spent = {
            "gathering": started - group[0].at,
            "all": time.perf_counter() - started,
        } | self._writer.spent
        committed = Committed(self.shard, stamp, version, rows, size, spent)
        self.on_committed(committed)
        return committed

    def _append(self, group: list[Submission], parts: Sequence[Request], stamp: Stamp) -> Version:
        table = to_table(parts)
        tickets = _number(group)
        while True:
            shard = self._writer.name
            if tickets:
                # Before the commit: the order job may be done with it before `append` returns.
                self._pending_offsets.expect(shard, stamp, tickets)
            try:
                return self._writer.append(table, stamp)
            except ShardSealed as e:
                # We were taken for dead (a long pause, say). Nothing of this group is in the old
                # shard, so a new incarnation takes it, under the same stamp.
                self._pending_offsets.forget(shard, stamp)
                self._open_another(shard, e)
                if e.stored == "unknown":
                    # It may be in the old shard after all: who sent it has to send it again,
                    # under the same message ids.
                    raise
                self._check(parts)
            except BaseException:
                self._pending_offsets.forget(shard, stamp)
                raise


def _number(group: list[Submission]) -> list[Ticket]:
    """Tell each ticket where its rows begin; the tickets of the group."""
    if not any(submission.ticket for submission in group):
        return []
    first_row = 0
    tickets: list[Ticket] = []
    for submission in group:
        if submission.ticket is not None:
            submission.ticket.first_row = first_row
            tickets.append(submission.ticket)
        first_row += sum(len(part.rows) for part in submission.parts)
    return tickets


def _answerable(error: LakequeueError) -> LakequeueError:
    """A storage error as a producer should hear it: to be retried, and whether it is stored."""
    if error.retryable and error.http_status != 409:
        error.stored = error.stored or "no"
        return error
    stored = error.stored or ("no" if isinstance(error, RootUnusable) else "unknown")
    return StorageUnavailable(error.detail, hint=error.hint, stored=stored, retry_after_s=5.0)
