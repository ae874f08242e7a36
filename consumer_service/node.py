"""A consumer-service node: its parts put together, started and drained in order."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import structlog

from consumer_service.acks import Acks
from consumer_service.delivery import Delivery
from consumer_service.held import Held, Holdings
from consumer_service.journal import Journal
from consumer_service.keeper import Keeper
from consumer_service.members import Members
from consumer_service.segments import Segments
from consumer_service.tailer import Tailer
from consumer_service.takeover import Takeover
from coordination.bells import Bell
from coordination.controller import Controller
from coordination.registry import Registration, register
from coordination.session import Session
from lakequeue.errors import LakequeueError
from lakequeue.records import TopicId, TopicPartition
from lakequeue.settings import Settings
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore

log = structlog.get_logger()

ROLE = "consumer"
MAX_SKEW_S = 5.0


class Node:
    """Everything that one process has. `start` before serving, `drain` before leaving."""

    def __init__(self, settings: Settings, root: QueueRoot, session: Session, name: str) -> None:
        consumer = settings.consumer
        self.name = name
        self.settings = settings
        self.root = root
        self.session = session
        self.topics = TopicStore(root)
        self.holdings = Holdings()
        self.members = Members(consumer.session_timeout_ms, consumer.max_poll_interval_ms)
        self.bell = Bell(session, "journal", settings.coordination.ring_interval_ms)
        self.journal = Journal(root, name, consumer.linger_ms, self._on_sealed, self._on_committed)
        self.segments = Segments(consumer.tail_bytes)
        self.tailer = Tailer(root, self.segments, self._wants, self._wake)
        self.takeover = Takeover(root, self.journal)
        self.delivery = Delivery(self.tailer, self.holdings, consumer.max_poll_bytes)
        self.acks = Acks(self.journal, self.holdings)
        self.keeper = Keeper(
            session,
            name,
            self.journal,
            self.holdings,
            self.members,
            self.takeover,
            self._start_of,
        )
        self.controller = Controller(session, self._partitions_of)
        self.draining = threading.Event()
        self._registration: Registration | None = None

    def start(self, url: str) -> None:
        """Follow the log, hold what is assigned, stand for controller, and be found as `url`."""
        self.tailer.start(self.session)
        self.keeper.start()
        self.controller.start()
        self._registration = register(self.session, ROLE, self.name, {"url": url})

    def drain(self) -> None:
        """Answer parked polls, give all partitions back, forget the members, then stop."""
        if self.draining.is_set():
            return
        self.draining.set()
        log.info("node.draining", node=self.name)
        self.members.close()
        self.keeper.stop()
        self.controller.stop()
        self.tailer.stop()
        self.journal.close()
        self.bell.close()
        self.session.stop()

    def not_ready(self) -> list[str]:
        """Why the node cannot serve now; empty when it can."""
        reasons: list[str] = []
        if self.draining.is_set():
            reasons.append("stopping")
        if not self.session.trusted():
            reasons.append("ZooKeeper does not answer: consumption is stopped")
        if abs(self.session.skew_s) > MAX_SKEW_S:
            reasons.append(f"this machine's clock is {self.session.skew_s:+.1f} s off")
        reasons += [f for f in (self.tailer.failure, self.keeper.failure) if f is not None]
        if self._registration is not None:
            try:
                self._registration.check_alone()
            except LakequeueError as e:
                reasons.append(e.detail)
        return reasons

    # -- what the parts ask of each other ---------------------------------------------------------

    def _on_sealed(self) -> None:
        self.keeper.sealed()

    def _on_committed(self, version: int) -> None:
        self.bell.ring(version)

    def _wants(self, topic_id: TopicId) -> bool:
        return any(held.key.topic_id == topic_id for held in self.holdings.all())

    def _wake(self, grown: set[TopicPartition]) -> None:
        self.members.wake({h.member for h in self.holdings.all() if h.where in grown})

    def _start_of(self, held: Held) -> int | None:
        below = max(
            (
                member.latest_below.get(held.key.topic_id, 0)
                for member in self.members.all()
                if member.group == held.key.group
            ),
            default=0,
        )
        if held.key.partition >= below:
            return None
        self.tailer.catch_up()
        return self.tailer.end(held.where)

    def _partitions_of(self, names: list[str]) -> Iterable[tuple[str, str, int]]:
        self.topics.refresh()
        for topic in self.topics.list():
            if topic.topic in names:
                for partition in range(topic.partitions):
                    yield topic.topic, topic.topic_id, partition
