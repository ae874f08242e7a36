"""A consumer-service node: its parts put together, started and drained in order."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import orjson
import structlog

from consumer_service.blindness import Blindness
from consumer_service.clients import Clients
from consumer_service.members import Members
from consumer_service.ownership.held import Held, Holdings
from consumer_service.ownership.journal import Journal
from consumer_service.ownership.keeper import Keeper
from consumer_service.ownership.takeover import Takeover
from consumer_service.queues.acks import QueueAcks
from consumer_service.queues.dead_letters import DeadLetters
from consumer_service.queues.delivery import QueueDelivery
from consumer_service.queues.due_timer import DueTimer
from consumer_service.queues.waiters import Waiters
from consumer_service.reading.segments import Segments
from consumer_service.reading.tailer import Tailer
from consumer_service.reading.undecodable import Undecodable
from consumer_service.streams.acks import Acks
from consumer_service.streams.delivery import Delivery
from consumer_service.webhooks.posts import Webhooks
from coordination.groups import leases, membership
from coordination.groups.controller import Controller
from coordination.zookeeper import registry
from coordination.zookeeper.bells import Bell
from coordination.zookeeper.directory import Directory
from coordination.zookeeper.registry import Registration, register
from coordination.zookeeper.session import Session
from lakequeue.errors import LakequeueError
from lakequeue.records import TopicId, TopicPartition
from lakequeue.settings import Settings
from lakequeue.wire import default_dead_letters
from queue_rules.queues.retry_policy import Policy, policy_of
from queue_rules.queues.wishes import Gone
from queue_tables.groups.facts import Key
from queue_tables.groups.state import read_group_state
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from queue_tables.upkeep.health import TablesWatch

log = structlog.get_logger()

ROLE = "consumer"
MAX_SKEW_S = 5.0


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
        self.holdings = Holdings()
        self.members = Members(consumer.session_timeout_ms, consumer.max_poll_interval_ms)
        self.bell = Bell(session, "journal", settings.coordination.ring_interval_ms)
        self.journal = Journal(root, name, consumer.linger_ms, self._on_sealed, self._on_committed)
        self.segments = Segments(consumer.tail_bytes)
        self.tailer = Tailer(root, self.segments, self._wants, self._wake, consumer.poll_s)
        self.blindness = Blindness(self.tailer, self._other_urls)
        self.takeover = Takeover(root, self.journal, self.tailer.marks, self._policy_of)
        self.acks = Acks(self.journal, self.holdings)
        self.undecodable = Undecodable()
        self.delivery = Delivery(
            self.tailer,
            self.holdings,
            consumer.max_poll_bytes,
            self.acks.pass_on,
            self.undecodable.found,
        )
        self.waiters = Waiters()
        self.timer = DueTimer(self.holdings.queues, self.waiters)
        self.dead_letters = DeadLetters(
            self.tailer,
            self.journal,
            self.topics,
            self.holdings.queues,
            self.dead_letters_of,
            self.ingest_urls,
            self.waiters.news,
        )
        self.queue_delivery = QueueDelivery(
            self.tailer,
            self.holdings,
            self.journal,
            self.waiters,
            self.timer,
            consumer.max_poll_bytes,
            self.dead_letters.look,
            self.undecodable.found,
        )
        self.queue_acks = QueueAcks(
            self.journal,
            self.holdings,
            self.waiters,
            self.timer,
            self.url_of_owner,
            self.gone,
            self.dead_letters.look,
        )
        self.keeper = Keeper(
            session,
            name,
            self.journal,
            self.holdings,
            self.members,
            self.takeover,
            self._start_of,
        )
        self.directory = Directory(session)
        self.controller = Controller(session, self._partitions_of)
        self.webhooks = Webhooks(
            session,
            name,
            self.topics,
            self.blindness.elsewhere,
            clients.worker,
            allow_private=consumer.webhook_allow_private,
        )
        self.draining = threading.Event()
        self.url = ""
        """Where the node is found, once it has started."""
        self._registration: Registration | None = None

    def start(self, url: str) -> None:
        """Follow the log, hold what is assigned, stand for controller, and be found as `url`."""
        self.bell.start()
        self.journal.start()
        self.url = url
        self.tailer.start(self.session)
        self.keeper.start()
        self.timer.start()
        self.dead_letters.start()
        self.controller.start()
        self._registration = register(self.session, ROLE, self.name, {"url": url})
        self.webhooks.start(url)

    def drain(self) -> None:
        """Answer parked polls, give all partitions back, forget the members, then stop."""
        if self.draining.is_set():
            return
        self.draining.set()
        log.info("node.draining", node=self.name)
        self.webhooks.stop()
        self.members.close()
        self.dead_letters.stop()
        self.timer.stop()
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
        answers = self.session.trusted()
        if not answers:
            reasons.append("ZooKeeper does not answer: consumption is stopped")
        if abs(self.session.skew_s) > MAX_SKEW_S:
            reasons.append(f"this machine's clock is {self.session.skew_s:+.1f} s off")
        reasons += [f for f in (self.tailer.failure, self.keeper.failure) if f is not None]
        if self._registration is not None and answers:
            # Else it would be asked for as long as a session lasts: a probe does not wait for that.
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
        """What is held here; and what members wait for: theirs may any time be what a node held
        that is dead for a session timeout then, and to read that from the files takes a second.
        """
        if any(held.key.topic_id == topic_id for held in self.holdings.all()):
            return True
        topic = self.topics.by_id(topic_id)
        return topic is not None and self.members.want(topic.topic)

    def _wake(self, grown: set[TopicPartition]) -> None:
        held = [held for held in self.holdings.all() if held.where in grown]
        self.members.wake({h.member for h in held if h.mode == "stream"})
        for group in {h.key.group for h in held if h.mode == "queue"}:
            self.waiters.news(group)

    def _policy_of(self, held: Held) -> Policy:
        self.topics.refresh()
        return policy_of(_options(held), self.topics.by_id(held.key.topic_id))

    def dead_letters_of(self, held: Held) -> str:
        """Name of the dead-letter topic of a partition of a queue group."""
        topic = self.topics.by_id(held.key.topic_id)
        named = _options(held).get("dead_letter_topic")
        if named is not None:
            return str(named)
        return default_dead_letters(held.topic) if topic is None else topic.dead_letters

    def ingest_urls(self) -> list[str]:
        """Base URLs of the ingest nodes that live. Raises `CoordinationUnavailable`."""
        return [str(info["url"]) for info in registry.nodes(self.session, "ingest").values()]

    def _other_urls(self) -> list[str]:
        return [info.url for info in self.directory.nodes().consumer if info.node != self.name]

    def url_of_owner(self, key: Key) -> str | None:
        """Base URL of the other node that has the partition; None while none is known."""
        lease = leases.held(self.session, key.group).get((key.topic_id, key.partition))
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


def _options(held: Held) -> dict[str, Any]:
    options: dict[str, Any] = orjson.loads(held.options or "{}")
    return options
