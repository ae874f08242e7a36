"""A consumer-service node: its parts put together, started and drained in order."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import orjson
import structlog

from consumer_service.clients import Clients
from consumer_service.kept_settings import KeptSettings
from consumer_service.members import Member, Members
from consumer_service.ownership.journal import Journal
from consumer_service.ownership.modes import by_mode
from consumer_service.ownership.owned_partition import OwnedPartition, OwnedPartitions
from consumer_service.ownership.reconciler import Reconciler
from consumer_service.ownership.takeover import Takeover
from consumer_service.polls.served import Served
from consumer_service.queues.acks import QueueAcks
from consumer_service.queues.dead_letters import DeadLetters
from consumer_service.queues.delivery import QueueDelivery
from consumer_service.queues.due_timer import DueTimer
from consumer_service.queues.mode import Queues
from consumer_service.queues.waiters import Waiters
from consumer_service.read_failover import ReadFailover
from consumer_service.reading.segments import Segments
from consumer_service.reading.tailer import Tailer
from consumer_service.reading.undecodable import Undecodable
from consumer_service.streams.acks import Acks
from consumer_service.streams.delivery import Delivery
from consumer_service.streams.mode import Streams
from consumer_service.webhooks.posts import Webhooks
from consumer_service.webhooks.sealed import Sealed
from coordination.groups import leases, membership
from coordination.groups.controller import Controller
from coordination.zookeeper import registry
from coordination.zookeeper.discovery import Discovery
from coordination.zookeeper.notifications import Notifier
from coordination.zookeeper.registry import Registration, register
from coordination.zookeeper.session import Session
from lakequeue.clock import MAX_SKEW_S
from lakequeue.errors import LakequeueError
from lakequeue.records import TopicId, TopicPartition
from lakequeue.settings import Settings
from queue_rules.queues.dead_records import dead_letters_of
from queue_rules.queues.receipt_actions import Gone
from queue_rules.queues.retry_policy import RetryPolicy, policy_of
from queue_tables.files.commit_events import interval_of
from queue_tables.groups.facts import Key
from queue_tables.groups.state import read_group_state
from queue_tables.root import QueueRoot
from queue_tables.schema.formats import NUMBER
from queue_tables.topics import TopicStore
from queue_tables.upkeep.health import TablesWatch
from serving.front.limits.shares import Pool

log = structlog.get_logger()

ROLE = "consumer"


class Node:
    """Everything that one process has. `start` before serving, `drain` before leaving."""

    def __init__(
        self, settings: Settings, root: QueueRoot, session: Session, name: str, clients: Clients
    ) -> None:
        consumer = settings.consumer
        self.clients = clients
        self.name = name
        self.settings = settings
        self.root = root
        self.session = session
        self.tables = TablesWatch(root)
        """What is wrong with tables: told by `/readyz`, and no reason not to be ready."""
        self.topics = TopicStore(root)
        self.owned_partitions = OwnedPartitions()
        self.members = Members(consumer.session_timeout_ms, consumer.max_poll_interval_ms)
        self.notifier = Notifier(
            session, "journal", interval_of(settings.coordination.ring_interval_ms, root.store)
        )
        self.journal = Journal(root, name, consumer.linger_ms, self._on_sealed, self._on_committed)
        self.segments = Segments(consumer.tail_bytes)
        changed = self.owned_partitions.read_anew
        self.tailer = Tailer(root, self.segments, self._wants, self._wake, consumer.poll_s, changed)
        self.read_failover = ReadFailover(self.tailer, self._other_urls)
        self.acks = Acks(self.journal, self.owned_partitions)
        self.undecodable = Undecodable()
        self.delivery = Delivery(
            self.tailer,
            self.owned_partitions,
            consumer.max_poll_bytes,
            self.acks.pass_on,
            self.undecodable.found,
        )
        self.waiters = Waiters()
        self.timer = DueTimer(self.owned_partitions.queues, self.waiters)
        self.dead_letters = DeadLetters(
            self.tailer,
            self.journal,
            self.topics,
            self.owned_partitions.queues,
            self.dead_letters_of,
            self.ingest_urls,
            self.waiters.news,
        )
        self.queue_delivery = QueueDelivery(
            self.tailer,
            self.owned_partitions,
            self.journal,
            self.waiters,
            self.timer,
            consumer.max_poll_bytes,
            self.dead_letters.wake,
            self.undecodable.found,
            Pool("take", max(2, consumer.threads // 4)).submit,
        )
        self.queue_acks = QueueAcks(
            self.journal,
            self.owned_partitions,
            self.waiters,
            self.timer,
            self.url_of_owner,
            self.gone,
            self.dead_letters.wake,
        )
        self.queues = Queues(
            name,
            self.members,
            self.waiters,
            self.queue_delivery,
            self.queue_acks,
            self.topics,
            self._policy_of,
        )
        self.streams = Streams(
            self.members, self.owned_partitions, self.delivery, self.acks, self.topics, self.tailer
        )
        self.modes: dict[str, Served] = {"stream": self.streams, "queue": self.queues}
        self.takeover = Takeover(root, self.journal, self.tailer.marks, self.modes)
        self.reconciler = Reconciler(
            session,
            name,
            self.journal,
            self.owned_partitions,
            self.members,
            self.takeover,
            self._start_of,
            self.modes,
        )
        self.discovery = Discovery(session)
        self.controller = Controller(session, self._partitions_of)
        self.kept = KeptSettings(session, root, name)
        """What people said about groups, where no ensemble can lose it."""
        self.webhooks = Webhooks(
            session,
            name,
            self.topics,
            self.read_failover.better_node,
            clients.worker,
            Sealed(root, name),
            self.kept,
            allow_private=consumer.webhook_allow_private,
            ca=settings.ca,
        )
        self.draining = threading.Event()
        self.url = ""
        """Where the node is found, once it has started."""
        self._registration: Registration | None = None

    def start(self, url: str) -> None:
        """Follow the log, hold what is assigned, stand for controller, and be found as `url`."""
        self.notifier.start()
        self.journal.start()
        self.url = url
        self.tailer.start(self.session)
        self.reconciler.start()
        self.timer.start()
        self.dead_letters.start()
        self.controller.start()
        self._registration = register(
            self.session, ROLE, self.name, {"url": url, registry.FORMAT: NUMBER}
        )
        self.webhooks.start(url)
        self.kept.start()

    def drain(self) -> None:
        """Answer waiting polls, give all partitions back, forget the members, then stop."""
        if self.draining.is_set():
            return
        self.draining.set()
        log.info("node.drain_started", node=self.name)
        self.kept.stop()
        self.webhooks.stop()
        self.members.close()
        self.dead_letters.stop()
        self.timer.stop()
        self.reconciler.stop()
        self.controller.stop()
        self.tailer.stop()
        self.journal.close()
        self.notifier.close()
        self.session.stop()

    def not_ready(self) -> list[str]:
        """Why the node cannot serve now; empty when it can."""
        reasons: list[str] = []
        if self.draining.is_set():
            reasons.append("stopping")
        answers = self.session.trusted()
        if not answers:
            reasons.append("ZooKeeper does not answer: consumption is stopped")
        if abs(self.session.skew_s) > MAX_SKEW_S:
            reasons.append(f"this machine's clock is {self.session.skew_s:+.1f} s off")
        reasons += [f for f in (self.tailer.failure, self.reconciler.failure) if f is not None]
        if self._registration is not None and answers:
            # Else it would be asked for as long as a session lasts: a probe does not wait for that.
            try:
                self._registration.check_alone()
            except LakequeueError as e:
                reasons.append(e.detail)
        return reasons

    # -- what the parts ask of each other ---------------------------------------------------------

    def _on_sealed(self) -> None:
        self.reconciler.sealed()

    def _on_committed(self, version: int) -> None:
        self.notifier.notify(version)

    def _wants(self, topic_id: TopicId) -> bool:
        """Whether to keep new records of a topic in memory.

        If partitions of it are owned here; and if a member here waits for it: it may get
        partitions of a dead node at any time, and to read the files then takes a second.
        """
        if self.owned_partitions.has(topic_id):
            return True
        topic = self.topics.by_id(topic_id)
        return topic is not None and self.members.want(topic.topic)

    def _wake(self, grown: set[TopicPartition]) -> None:
        for mode, some in by_mode(self.modes, self.owned_partitions.at(grown)):
            mode.grown(some)

    def mode_of(self, member: Member) -> Served:
        """The mode that serves a member."""
        return self.modes[member.request.mode]

    def _policy_of(self, owned: OwnedPartition) -> RetryPolicy:
        self.topics.refresh()
        return policy_of(_options(owned), self.topics.by_id(owned.key.topic_id))

    def dead_letters_of(self, owned: OwnedPartition) -> str:
        """Name of the dead-letter topic of a partition of a queue group."""
        topic = self.topics.by_id(owned.key.topic_id)
        return dead_letters_of(_options(owned), owned.topic, topic)

    def ingest_urls(self) -> list[str]:
        """Base URLs of the ingest nodes that live. Raises `CoordinationUnavailable`."""
        return [str(info["url"]) for info in registry.nodes(self.session, "ingest").values()]

    def _other_urls(self) -> list[str]:
        return [info.url for info in self.discovery.nodes().consumer if info.node != self.name]

    def url_of_owner(self, key: Key) -> str | None:
        """Base URL of the other node that has the partition; None while none is known."""
        lease = leases.leases_of(self.session, key.group).get((key.topic_id, key.partition))
        if lease is None or lease.owner.node == self.name:
            return None
        return self.url_of(lease.owner.node)

    def gone(self, key: Key) -> Gone | None:
        """Why a partition that nobody has will never have an owner again; None: it may."""
        self.topics.refresh()
        if self.topics.by_id(key.topic_id) is None:
            return "topic_deleted"
        if membership.group_config(self.session, key.group) is not None:
            return None
        # Nobody is a member: only the tables know whether there is such a group.
        states = read_group_state(self.root, key.group).states.values()
        return None if any(not state.deleted for state in states) else "group_deleted"

    def url_of(self, node: str) -> str | None:
        """Base URL of another node, if it lives."""
        info = registry.nodes(self.session, ROLE).get(node)
        return None if info is None else str(info["url"])

    def _start_of(self, owned: OwnedPartition) -> int | None:
        below = max(
            (
                member.latest_below.get(owned.key.topic_id, 0)
                for member in self.members.all()
                if member.group == owned.key.group
            ),
            default=0,
        )
        if owned.key.partition >= below:
            return None
        self.tailer.catch_up()
        return self.tailer.end(owned.where)

    def _partitions_of(self, names: list[str]) -> Iterable[tuple[str, str, int]]:
        self.topics.refresh()
        for topic in self.topics.list():
            if topic.topic in names:
                for partition in range(topic.partitions):
                    yield topic.topic, topic.topic_id, partition


def _options(owned: OwnedPartition) -> dict[str, Any]:
    options: dict[str, Any] = orjson.loads(owned.options or "{}")
    return options
