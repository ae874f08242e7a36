"""An ingest node: everything one process holds, from the topics to the shard it commits to."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import structlog

from coordination.zookeeper.registry import FORMAT
from ingest.commit.appender import Appender, Committed, Submission
from ingest.commit.draining import settle
from ingest.commit.order_tail import OrderTail
from ingest.commit.pending_offsets import PendingOffsets, Ticket
from ingest.fresh_topics import FreshTopics
from ingest.presence import Presence
from ingest.request_ids import RequestIds
from lakequeue import wire
from lakequeue.clock import MAX_SKEW_S, HybridClock, Micros, WallClock, wall_micros
from lakequeue.errors import NotReady, OrderTimeout, UnknownTopic
from lakequeue.partitioner import StickyRoundRobin
from lakequeue.records import Stamp, Version, checked_name
from lakequeue.settings import IngestSettings, Settings
from queue_rules.produce.answers import answer_of, minimal_answer_of
from queue_rules.produce.arrival import check_whole, fill_in, limits_of, spread
from queue_rules.produce.dead_values import Parted, parted
from queue_rules.produce.fencing_checks import check_consumed, refuse_if_judged_so
from queue_rules.produce.outcomes import Outcome
from queue_rules.produce.rows import NO_PARTITION, Request
from queue_rules.produce.validation import Limits
from queue_rules.queues.dead_records import new_dead_letters
from queue_tables.log.marks import LogMarks
from queue_tables.root import QueueRoot
from queue_tables.schema.formats import NUMBER
from queue_tables.schema.schemas import TOPICS
from queue_tables.schema.topic_rules import Topic, refuse_if_closed
from queue_tables.shards.group_commit import GroupCommitter
from queue_tables.shards.shards import highest_stamp
from queue_tables.topics import TopicStore
from queue_tables.upkeep.health import TablesWatch
from serving.front.limits.budget import Budget
from serving.front.parking import FOREVER, Done, Steps, Until, finish

log = structlog.get_logger("ingest")

_MOST_LIMITS = 4_096
_ASSUMED_ROOM = 64 << 20
"""Free bytes below which a local disk counts as full: the groups under way must still fit."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A reason not to be ready."""

    code: str
    detail: str


class IngestNode:
    """Opens the root and a shard of its own at construction; `close` drains.

    Thread-safe. Raises what `QueueRoot.open` raises when the root is not usable.
    """

    def __init__(
        self, settings: Settings, node: str, url: str = "", *, wall: WallClock = wall_micros
    ) -> None:
        self.settings: IngestSettings = settings.ingest
        self.node = node
        self._wall = wall
        self.root = QueueRoot.open(settings.root, needs=(TOPICS.name,))
        self.tables = TablesWatch(self.root)
        """What is wrong with tables: told by `/readyz`, and no reason not to be ready."""
        self.topics = TopicStore(self.root, changed=self._topics_changed)
        self.fresh_topics = FreshTopics(self.topics)
        self.budget = Budget(max(self.settings.max_pending_bytes, self.settings.max_request_bytes))
        self.parsing = Budget(self.settings.max_parsed_bytes)
        """What bodies become, until only their records are left."""
        self._pending_offsets = PendingOffsets()
        self.stopping = threading.Event()
        self._order_tail = OrderTail(self.root, self._pending_offsets, self.stopping)
        clock = HybridClock(wall, highest_stamp(self.root, "inbox", node))
        self.appender = Appender(self.root, node, clock, self._pending_offsets, self.topics, wall)
        self.appender.on_committed = self._committed
        self.on_committed: Callable[[Committed], None] = lambda _: None
        self.presence = Presence(
            settings.zookeeper,
            self.root,
            node,
            {"url": url, "shard": self.appender.shard, FORMAT: NUMBER},
            settings.coordination,
        )
        self.committer: GroupCommitter[Submission] = GroupCommitter(
            self.appender.commit,
            linger_ms=self.settings.linger_ms,
            max_group_bytes=self.settings.max_group_bytes,
            max_pending_bytes=self.budget.limit,
            name="ingest-committer",
        )
        self.marks = LogMarks(self.root)
        self._request_ids = RequestIds()
        self._limits: dict[str, tuple[Topic, Limits]] = {}
        """By topic id, with what they were made of."""
        self._sticky: dict[str, StickyRoundRobin] = {}
        self._sticky_lock = threading.Lock()

    def start(self) -> Self:
        """Begin to commit, to follow the log, and to be found."""
        self._order_tail.start()
        self.committer.start()
        self.presence.start()
        return self

    # -- topics -----------------------------------------------------------------------------------

    def limits_of(self, topic: Topic) -> Limits:
        """What a request to this topic may hold."""
        known = self._limits.get(topic.topic_id)
        if known is None or known[0] is not topic:
            if len(self._limits) >= _MOST_LIMITS:
                self._limits.clear()
            self._limits[topic.topic_id] = known = (topic, limits_of(topic, self.settings))
        return known[1]

    def now(self) -> int:
        """The wall clock, microseconds since 1970 UTC."""
        return self._wall()

    # -- dead letters of values -------------------------------------------------------------------

    def with_dead_letters(
        self,
        parts: Sequence[Request],
        topics: Sequence[Topic],
        numbers: Sequence[int],
        made: Callable[[Topic, Topic], None] = lambda _, __: None,
    ) -> Parted:
        """The request with its dead records for the topics of dead letters, which are made if they
        are not there. `made` is told of each one: the topic, and that for its dead letters.

        Raises `TooLarge`, `StorageUnavailable`.
        """
        letters_of = partial(self._letters_of, made)
        return parted(parts, topics, numbers, self._wall(), letters_of, self.limits_of)

    def _letters_of(self, made: Callable[[Topic, Topic], None], topic: Topic) -> Topic:
        name = topic.dead_letters
        try:
            return self.fresh_topics.get(name)
        except UnknownTopic:
            letters, is_new = self.topics.create(name, **new_dead_letters(topic))
            if is_new:
                made(topic, letters)
                log.info("dead_letter_topic.created", topic=topic.topic, dead_letter_topic=name)
            return letters

    # -- produce ----------------------------------------------------------------------------------

    def produce(self, request: Request, topic: Topic, query: wire.ProduceQuery) -> dict[str, Any]:
        """`steps` for records of one topic, waiting in this thread."""
        return finish(self.steps([request], [topic], range(len(request.rows)), query))

    def steps(
        self,
        parts: Sequence[Request],
        topics: Sequence[Topic],
        numbers: Sequence[int],
        query: wire.ProduceQuery,
        sender: Hashable = None,
        *,
        minimal: bool = False,
    ) -> Steps[dict[str, Any]]:
        """Commit a request, and wait for its offsets if it says so; the body of the 200.

        One part a topic. `numbers`: where in the request the records of the parts stood, one part
        after the other. `sender`: see `GroupCommitter.submit`. `minimal`: say no more than must be.
        Blocks only where the request is `judged`.

        Raises `ClockSkew`, `TooLarge`, `Overloaded`, `NotReady`, storage errors, `OrderTimeout`.
        """
        request, now = parts[0], self._wall()
        size = sum([part.rows.total_bytes for part in parts])
        self._check(request, size, now)
        for part, topic in zip(parts, topics, strict=True):
            self._complete(part, topic, now)
            part.request_id = request.request_id
        waits = query.wait == "ordered" or request.judged
        timeout_s = query.timeout_ms / 1_000 if waits else None
        stamp, outcomes = yield from self.submit(parts, size, timeout_s, sender)
        if request.judged and outcomes is not None:
            refuse_if_judged_so(request, outcomes, self.marks)
        found = minimal_answer_of(parts, stamp) if minimal and outcomes is None else None
        return found or answer_of(parts, numbers, stamp, outcomes)

    def submit(
        self,
        parts: Sequence[Request],
        size: int,
        timeout_s: float | None,
        sender: Hashable = None,
    ) -> Steps[tuple[Stamp, list[Outcome] | None]]:
        """Commit a complete request of `size` bytes; with a timeout, wait for what becomes of it.

        Raises `OrderTimeout` (the rows are stored), `Overloaded`, `NotReady`, storage errors.
        """
        ticket = None if timeout_s is None else Ticket(sum(len(part.rows) for part in parts))
        deadline = 0.0 if timeout_s is None else time.monotonic() + timeout_s
        future = self.committer.submit(Submission(parts, ticket), size, sender)
        while True:
            yield Until(Done(future), FOREVER, minds=False)
            if future.done():
                break
        committed: Committed = future.result()
        if ticket is None:
            return committed.stamp, None
        while not ticket.settled.is_set() and (left := deadline - time.monotonic()) > 0:
            yield Until(ticket.settled, left, minds=False)
        return committed.stamp, self._outcomes(ticket, parts, committed)

    def _check(self, request: Request, size: int, now: Micros) -> None:
        self._refuse_if_off(now)
        check_whole(
            request,
            size,
            now,
            max_ahead_s=self.settings.max_carried_ahead_s,
            max_group_bytes=self.settings.max_group_bytes,
        )

    def _refuse_if_off(self, now: Micros) -> None:
        """Raise `NotReady` if this clock is off, and other nodes are there to go to.

        They would refuse a stamp of ours that is far ahead: a producer that carries one could send
        nothing anywhere until their clocks are there too. And we would refuse theirs. A client asks
        nobody's `/readyz`, so it has to be said here.
        """
        if self._clock_is_right(now) or self.presence.state != "connected":
            return
        troubles = self._clock_troubles()
        if troubles and len(self.presence.nodes().ingest) > 1:
            raise NotReady(
                troubles[0].detail, hint="send to another node; fix NTP on this one", stored="no"
            )

    def _complete(self, request: Request, topic: Topic, now: Micros) -> None:
        """Fill in what depends on this node: arrival, keyless partitions, the request's id."""
        refuse_if_closed(topic, now)
        rows = request.rows
        request.placed_among = topic.partitions
        request.request_id = self._request_ids.next()
        if request.consumed is not None:
            request.consumed_topic_id = self._check_consumed(request.consumed)
        fill_in(rows, now, topic.ttl_ms)
        if NO_PARTITION in rows.partitions:
            with self._sticky_lock:
                rule = self._sticky.setdefault(request.topic_id, StickyRoundRobin())
                spread(rows, rule, topic.partitions)

    def _check_consumed(self, said: wire.Consumed) -> str:
        """Raise unless these records can have been delivered; the id of their topic."""
        checked_name(said.group, "group")
        source = self.fresh_topics.get(said.topic)
        if said.topic_id not in {None, source.topic_id}:
            self.topics.refresh()  # ours may be the older one
            source = self.fresh_topics.get(said.topic)
        check_consumed(said, source, self.marks)
        return source.topic_id

    def _outcomes(
        self, ticket: Ticket, parts: Sequence[Request], committed: Committed
    ) -> list[Outcome]:
        if ticket.outcomes is not None:
            return ticket.outcomes
        self._pending_offsets.abandon(ticket)
        why = "this node is stopping" if self.stopping.is_set() else "not ordered in time"
        raise OrderTimeout(
            f"the {ticket.count} records are stored, and {why}",
            hint="send again with the same message ids to learn the offsets, or read the log",
            stored="yes",
            retry_after_s=1.0,
            **answer_of(parts, range(ticket.count), committed.stamp, None),
        )

    def _topics_changed(self, version: Version) -> None:
        # Whoever assigns partitions hears of new ones.
        self.presence.notify("topics", version)

    def _committed(self, committed: Committed) -> None:
        self.presence.notify("inbox", committed.version)
        self.on_committed(committed)

    def settle(self, topic: Topic, timeout_s: float) -> Steps[int]:
        """See `draining.settle`."""
        return settle(self.root, topic, self._wall(), self.marks, timeout_s)

    # -- state ------------------------------------------------------------------------------------

    def troubles(self) -> list[Trouble]:
        """Why this node should get no requests now; [] when it is ready."""
        found: list[Trouble] = []
        if self.stopping.is_set():
            found.append(Trouble("stopping", "the node is draining"))
        failure = self.appender.failure
        if failure is not None and not self._mended(failure.code):
            found.append(Trouble(failure.code, f"the newest commit failed: {failure.detail}"))
        elif (free := self._free_bytes()) is not None and free < self._needed_bytes():
            found.append(Trouble("storage_full", f"{free} bytes are free on the root's disk"))
        return found + self._clock_troubles()

    def _clock_is_right(self, now: Micros) -> bool:
        skew_s = self.presence.skew_s
        ahead_s = (self.appender.newest_stamp - now) / 1e6
        return ahead_s <= MAX_SKEW_S and (skew_s is None or -MAX_SKEW_S <= skew_s <= MAX_SKEW_S)

    def _clock_troubles(self) -> list[Trouble]:
        found: list[Trouble] = []
        ahead_s = (self.appender.newest_stamp - self._wall()) / 1e6
        if ahead_s > MAX_SKEW_S:
            found.append(
                Trouble("clock_skew", f"the clock is {ahead_s:.1f} s behind this node's own stamps")
            )
        skew_s = self.presence.skew_s
        if skew_s is not None and abs(skew_s) > MAX_SKEW_S:
            found.append(Trouble("clock_skew", f"the clock is {skew_s:+.1f} s off ZooKeeper's"))
        return found

    def _mended(self, code: str) -> bool:
        """A full disk is ready again as soon as there is room; other storage after a commit."""
        if code != "storage_full":
            return False
        free = self._free_bytes()
        return free is not None and free >= self._needed_bytes()

    def _needed_bytes(self) -> int:
        return min(_ASSUMED_ROOM, 2 * self.settings.max_group_bytes)

    def _free_bytes(self) -> int | None:
        path = self.root.store.local_path
        try:
            return None if path is None else shutil.disk_usage(path).free
        except OSError:
            return None

    def close(self, timeout_s: float | None = None) -> None:
        """Take no more, commit what was taken, answer, end the session."""
        self.stopping.set()
        self.committer.drain(timeout_s)
        self._order_tail.close()
        self.presence.close()
