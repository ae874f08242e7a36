"""The groups of an in-memory queue: members, who has which partition, positions.

What takes a reconciler, leases and a take-over in the services is one assignment here: a partition
that changes hands gets the next epoch at once.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakequeue.errors import GroupActive, UnknownGroup
from lakequeue.records import Partition, TopicId, checked_name
from lakequeue.settings import ConsumerSettings
from lakequeue.wire import MAX_IN_FLIGHT, Assigned, JoinAnswer, JoinRequest, QueueReceipt
from memory_queue.log import Log
from memory_queue.topics import Topics
from queue_rules.groups.assignor import Assignment, Target, assign
from queue_rules.groups.group_config import GroupConfig, check_config
from queue_rules.groups.join_rules import check_options
from queue_rules.groups.member_names import member_id_of
from queue_rules.groups.member_states import Cause, unknown_member
from queue_rules.groups.pause_rules import NOTHING_PAUSED, PauseRules
from queue_rules.groups.start import latest_below
from queue_rules.predicates.of_group import check_new
from queue_rules.queues.partition import QueuePartition
from queue_rules.queues.refused_letters import RefusedLetters
from queue_rules.queues.retry_policy import policy_of
from queue_rules.streams.cursor import Cursor
from queue_tables.groups.facts import Key
from queue_tables.groups.record_states import NOTHING, RecordStates
from queue_tables.schema.marks import consumed_mark
from queue_tables.schema.topic_rules import Topic

NODE = "memory"
"""The one node there is: queue groups' partitions are its."""


@dataclass(eq=False)
class ModelPartition:
    """A partition in a group: its owner, and how far the group is."""

    key: Key
    topic: str
    generation: int = 0
    epoch: int = 0
    owner: str | None = None
    """The member that has it; in a queue group the node."""
    start: int = 0
    """Offset that this ownership began at."""
    committed: int | None = None
    cursor: Cursor = field(default_factory=lambda: Cursor(0))
    queue: QueuePartition | None = None
    """Queue groups: in place of the cursor."""
    refused_letters: RefusedLetters = field(default_factory=RefusedLetters)


@dataclass(eq=False)
class ModelMember:
    """A member of a group."""

    member_id: str
    request: JoinRequest
    host: str
    latest_below: dict[TopicId, int]
    turn: int = 0
    """Rotates over the partitions, so that a busy one does not starve the others."""
    polls: int = 0
    told: int = -1
    """Version of the assignment that it was told last."""
    last: list[QueueReceipt] = field(default_factory=list)
    """Queue groups: what the answer to its last poll had."""


@dataclass(eq=False)
class Group:
    """A group."""

    name: str
    config: GroupConfig
    members: dict[str, ModelMember] = field(default_factory=dict)
    owned: dict[Key, ModelPartition] = field(default_factory=dict)
    current: Assignment = field(default_factory=dict)
    version: int = 0
    pauses: PauseRules = NOTHING_PAUSED
    waiting: set[str] = field(default_factory=set)
    """Members whose polls wait for records."""

    @property
    def is_queue(self) -> bool:
        """Records go to one of any number of workers."""
        return self.config.mode == "queue"

    def of(self, member: ModelMember) -> list[ModelPartition]:
        """What a member has; in a queue group, what it shares with the others."""
        owner = NODE if self.is_queue else member.member_id
        return [
            owned
            for owned in self.owned.values()
            if owned.topic in member.request.topics and owned.owner == owner
        ]

    def in_turn(self, member: ModelMember) -> list[ModelPartition]:
        """What a member may take records from now, rotated at each call."""
        mine = [h for h in self.of(member) if not self.pauses.paused(h.topic, h.key.partition)]
        member.turn += 1
        turn = member.turn % len(mine) if mine else 0
        return mine[turn:] + mine[:turn]

    def assigned(self, member: ModelMember) -> list[Assigned]:
        """As polls and heartbeats tell it."""
        return [
            Assigned(
                topic=owned.topic,
                partition=owned.key.partition,
                epoch=owned.epoch,
                generation=owned.generation,
                start=owned.start,
            )
            for owned in sorted(self.of(member), key=lambda h: (h.topic, h.key.partition))
        ]


class Groups:
    """All groups. The caller holds the service's lock."""

    def __init__(self, topics: Topics, log: Log) -> None:
        self._topics = topics
        self._log = log
        self._settings = ConsumerSettings()
        self.by_name: dict[str, Group] = {}
        self._gone: dict[str, Cause] = {}
        self._before: dict[Key, tuple[int, int]] = {}
        """Generation and epoch of partitions of deleted groups: those of a new one are above."""

    # -- members ----------------------------------------------------------------------------------

    def join(self, name: str, request: JoinRequest, host: str) -> JoinAnswer:
        """Add a member. `InvalidRequest`, `InvalidName`, `UnknownTopic`, `GroupMismatch`."""
        checked_name(name, "group")
        topics = [self._topics.get(topic) for topic in dict.fromkeys(request.topics)]
        check_options(request, topics, self._topics.by_name)
        group = self.made(name, GroupConfig(request.mode, request.given()))
        below = latest_below(request.from_, {t.topic_id: t.partitions for t in topics}, group.owned)
        member = ModelMember(member_id_of(host, uuid.uuid4().hex), request, host, below)
        group.members[member.member_id] = member
        self.share(group)
        visibility_ms = policy_of(group.config.options, None).visibility_ms
        return JoinAnswer(
            member_id=member.member_id,
            assignment=group.assigned(member),
            assignment_version=group.version,
            session_timeout_ms=request.session_timeout_ms or self._settings.session_timeout_ms,
            visibility_timeout_ms=visibility_ms if group.is_queue else None,
            predicate=group.config.options.get("predicate"),
        )

    def made(self, name: str, asked: GroupConfig) -> Group:
        """The group, which is made if there is none. Raises `InvalidName`, `GroupMismatch`."""
        checked_name(name, "group")
        if name not in self.by_name:
            check_new(asked.options)
        group = self.by_name.get(name) or Group(name, asked)
        check_config(name, group.config, asked)
        self.by_name[name] = group
        return group

    def anonymous_member(self, name: str, topics: Sequence[str]) -> tuple[Group, ModelMember]:
        """A worker for one request of a client that has not joined, and its group."""
        found = [self._topics.get(topic) for topic in topics]
        group = self.made(name, GroupConfig("queue"))
        request = JoinRequest(topics=list(topics), mode="queue", max_in_flight=MAX_IN_FLIGHT)
        for topic in found:
            for number in range(topic.partitions):
                owned = self.hold(group, Key(name, topic.topic_id, Partition(number)))
                if owned.owner is None:
                    self._take(group, owned, NODE)
        return group, ModelMember("anonymous", request, "", {})

    def member(self, name: str, member_id: str) -> tuple[Group, ModelMember]:
        """An active member, and its group. Raises `UnknownMember`."""
        group = self.by_name.get(name)
        if group is None or member_id not in group.members:
            raise unknown_member(name, member_id, self._gone.get(member_id))
        return group, group.members[member_id]

    def leave(
        self, name: str, member_id: str, cause: Cause = Cause.LEFT, after: int | None = None
    ) -> None:
        """The member goes; its partitions and records are given to others. `UnknownMember`.

        It has got no answer later than `after`: what they had, nobody has looked at.
        """
        group, member = self.member(name, member_id)
        for receipt in member.last if after is not None and after < member.polls else ():
            key = Key(name, TopicId(receipt.topic_id), Partition(receipt.partition))
            owned = group.owned.get(key)
            if owned is not None and owned.queue is not None:
                owned.queue.give_back([(receipt.offset, receipt.attempt)])
        del group.members[member_id]
        group.waiting.discard(member_id)
        self._gone[member_id] = cause
        for owned in group.owned.values():
            if owned.queue is not None:
                owned.queue.member_gone(member_id)
        self.share(group)

    def find(self, member_id: str) -> Group | None:
        """The group of a member."""
        return next((g for g in self.by_name.values() if member_id in g.members), None)

    # -- who has what -----------------------------------------------------------------------------

    def topics_changed(self) -> None:
        """A topic was created, altered or deleted."""
        for group in self.by_name.values():
            self.share(group)

    def share(self, group: Group) -> None:
        """Give each partition to one member; where that changes, under the next epoch."""
        wanted = {m.member_id: m.request.topics for m in group.members.values()}
        targets = [
            Target(topic.topic, topic.topic_id, partition)
            for topic in self._topics.list()
            for partition in range(topic.partitions)
        ]
        group.current = assign(targets, wanted, group.current)
        owners = {
            Key(group.name, TopicId(target.topic_id), Partition(target.partition)): member
            for member, mine in group.current.items()
            for target in mine
        }
        group.version += 1
        for key, owned in group.owned.items():
            if key not in owners:
                owned.owner = None
        for key, owner in owners.items():
            owned = self.hold(group, key)
            owner = NODE if group.is_queue else owner
            if owned.owner != owner:
                self._take(group, owned, owner)

    def hold(self, group: Group, key: Key) -> ModelPartition:
        """The partition in the group, which may be new to it."""
        owned = group.owned[key] = self.look_at(group, key)
        return owned

    def look_at(self, group: Group, key: Key) -> ModelPartition:
        """The same, and one that is new to the group stays so."""
        owned = group.owned.get(key)
        if owned is None:
            topic = self._topics.by_id(key.topic_id)
            name = "" if topic is None else topic.topic
            owned = ModelPartition(key, name, *self._before.get(key, (0, 0)))
        return owned

    def _take(self, group: Group, owned: ModelPartition, owner: str) -> None:
        owned.owner, owned.epoch = owner, owned.epoch + 1
        begin = self._begin(group, owned)
        if begin is not None:
            owned.committed = begin
        owned.start = owned.committed or 0
        if not group.is_queue:
            owned.cursor = Cursor(owned.start)
        elif owned.queue is None:
            self.open_queue(group, owned, owned.start)

    def _begin(self, group: Group, owned: ModelPartition) -> int | None:
        """A position that the group has not committed: of its transforms, or the end."""
        if group.is_queue and owned.queue is not None:
            return None
        if not group.is_queue:
            name = consumed_mark(*owned.key, owned.generation)
            consumed = self._log.read().get(name)
            if consumed is not None and consumed > (owned.committed or 0):
                return consumed
        below = max(
            (m.latest_below.get(owned.key.topic_id, 0) for m in group.members.values()), default=0
        )
        if owned.committed is None and owned.key.partition < below:
            return self._log.end(*owned.key[1:])
        return None

    def open_queue(self, group: Group, owned: ModelPartition, start: int) -> None:
        """Begin with the records of a partition at `start`."""
        topic = self._topics.by_id(owned.key.topic_id)
        states = RecordStates.settled((0, start)) if start else NOTHING
        owned.queue = QueuePartition(policy_of(group.config.options, topic), states)

    # -- whole groups -----------------------------------------------------------------------------

    def get(self, name: str) -> Group:
        """Raises `UnknownGroup`, `InvalidName`."""
        group = self.by_name.get(checked_name(name, "group"))
        if group is None:
            raise UnknownGroup(f"group {name!r} does not exist", hint="its first member creates it")
        return group

    def delete(self, name: str) -> None:
        """Raises `GroupActive`, `UnknownGroup`."""
        group = self.get(name)
        refuse_if_active(group)
        for key, owned in group.owned.items():
            self._before[key] = owned.generation + 1, owned.epoch
        del self.by_name[name]

    def partitions(self, group: Group) -> Iterator[tuple[Topic, ModelPartition]]:
        """Those of the topics that it has members or positions in."""
        names = {name for m in group.members.values() for name in m.request.topics}
        ids = {key.topic_id for key in group.owned}
        for topic in self._topics.list():
            if topic.topic in names or topic.topic_id in ids:
                for number in range(topic.partitions):
                    yield (
                        topic,
                        self.hold(group, Key(group.name, topic.topic_id, Partition(number))),
                    )


def refuse_if_active(group: Group) -> None:
    """Raise `GroupActive` while the group has a member."""
    if group.members:
        names = ", ".join(f"{m.member_id} ({m.host}, node {NODE})" for m in group.members.values())
        raise GroupActive(
            f"group {group.name!r} has live members, {len(group.members)}: {names}",
            hint="stop them first; a killed one is gone after its session timeout",
            members=sorted(group.members),
        )


def options_of(config: GroupConfig) -> Mapping[str, Any] | None:
    """As a description tells them."""
    return dict(config.options) if config.options or config.mode == "queue" else None
