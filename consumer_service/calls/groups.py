"""Calls about members and groups, as the HTTP layer makes them: join, leave, describe, list."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from consumer_service.calls.descriptions import open_counts, shown
from consumer_service.members import Member
from consumer_service.node import Node
from consumer_service.ownership.member_partitions import AssignmentRows
from consumer_service.polls.served import Settling
from coordination.groups import leases, membership
from coordination.groups.controller import read_assignment
from coordination.groups.pauses import read_pauses
from lakequeue.errors import SentOn, UnknownGroup
from lakequeue.records import Partition, TopicPartition, checked_name
from lakequeue.wire import (
    AckRequest,
    Assigned,
    GroupDescription,
    GroupList,
    GroupSummary,
    HeartbeatAnswer,
    JoinAnswer,
    JoinRequest,
    MemberState,
    QueueGroupAnswer,
    QueueGroupRequest,
    SettleAnswer,
)
from lakequeue.wire import PartitionState as PartitionRow
from queue_rules.groups import member_states
from queue_rules.groups.group_config import GroupConfig, check_config
from queue_rules.groups.join_rules import check_options, check_some_exist, is_of_queue_group
from queue_rules.groups.start import latest_below
from queue_rules.predicates.of_group import check_new, predicate_of
from queue_rules.queues.retry_policy import check_retry
from queue_tables.groups.backlog import lag_of
from queue_tables.groups.facts import GroupState, Key
from queue_tables.groups.state import read_group_state
from serving.front.parking import Steps

LEAVE_WAIT_S = 2.0
IDLE_WAIT_S = 1.0
"""A worker whose node has no partition waits so long for one before it is sent on."""


def _untold(_made: object) -> None:
    """Nobody wants to know that a group was made."""


class Groups:
    """The verbs of groups; thread-safe."""

    def __init__(self, node: Node) -> None:
        self._node = node

    # -- members ----------------------------------------------------------------------------------

    def join(
        self,
        group: str,
        request: JoinRequest,
        host: str,
        made: Callable[[object], object] = _untold,
    ) -> JoinAnswer:
        """Add a member. Errors: `InvalidRequest`, `InvalidName`, `UnknownTopic`, `NotReady`.

        `made` is told what the group is, if this made it.
        """
        member, config = self._join(group, request, host, made)
        return JoinAnswer(
            member_id=member.member_id,
            assignment=self.assignment(member),
            assignment_version=self._node.reconciler.assignment_version(group),
            session_timeout_ms=member.session_timeout_ms,
            visibility_timeout_ms=self._node.modes[config.mode].visibility_ms(config.options),
            predicate=config.options.get("predicate"),
        )

    def join_anonymous(
        self, group: str, request: JoinRequest, made: Callable[[object], object]
    ) -> Member:
        """Add a member for clients that do not join; see `AnonymousMembers`."""
        return self._join(group, request, "anonymous", made, anonymous_member=True)[0]

    def let_go(self, member: Member) -> None:
        """The member goes; whoever has to know that it is gone waits for `member.gone`."""
        self._node.members.leave(member, member_states.Cause.LEFT)
        self._node.reconciler.wake()

    def create(self, group: str, request: QueueGroupRequest) -> QueueGroupAnswer:
        """See that there is a queue group with these options. Raises `GroupMismatch`, …"""
        checked_name(group, "group")
        self._node.topics.refresh()
        topics = {topic.topic: topic for topic in self._node.topics.list()}
        check_retry(request, [], topics)
        predicate_of(request.given())
        made = JoinRequest(topics=["-"], mode="queue", **request.given())
        config, _ = self._config(group, made)
        self._node.kept.say_options(group, config)
        membership.ensure_group(
            self._node.session, group, config.mode, config.options, self._node.kept.begin
        )
        return QueueGroupAnswer(group=group, options=dict(config.options))

    def _join(
        self,
        group: str,
        request: JoinRequest,
        host: str,
        made: Callable[[object], object],
        *,
        anonymous_member: bool = False,
    ) -> tuple[Member, GroupConfig]:
        node = self._node
        checked_name(group, "group")
        topics = [node.topics.get(name) for name in dict.fromkeys(request.topics)]
        if request.dead_letter_topic is not None:
            # A circle may go through topics that this node has not looked at since.
            node.topics.refresh()
        check_options(request, topics, {topic.topic: topic for topic in node.topics.list()})
        config, is_new = self._config(group, request)
        partitions = {topic.topic_id: topic.partitions for topic in topics}
        known: list[Key] = []
        if request.from_ == "latest":
            states = read_group_state(node.root, group).states
            known = [key for key, state in states.items() if not state.deleted]
        member = node.members.new(group, request, host)
        member.options = orjson.dumps(dict(config.options)).decode()
        member.anonymous_member = anonymous_member
        member.latest_below = latest_below(request.from_, partitions, known)
        entry = membership.RegisteredMember(
            member.member_id,
            tuple(topic.topic for topic in topics),
            node.name,
            request.mode,
            client=host,
        )
        try:
            if is_new:
                node.kept.begin(group)
                if membership.make_group(node.session, group, config):
                    made({"mode": config.mode, "options": dict(config.options)})
            membership.join(node.session, group, entry, config.options, node.kept.begin)
        except BaseException:
            node.members.leave(member, member_states.Cause.LEFT)
            raise
        node.members.joined(member)
        node.reconciler.wake()
        return member, config

    def _config(self, group: str, request: JoinRequest) -> tuple[GroupConfig, bool]:
        """Mode and options of the group, or, for a new one, what is asked for; whether it is new.

        When ZooKeeper has lost it, the tables know. Raises `GroupMismatch`.
        """
        asked = GroupConfig(request.mode, request.given())
        kept = membership.group_config(self._node.session, group)
        if kept is None:
            states = read_group_state(self._node.root, group).states.values()
            made = [s for s in states if not s.deleted and s.mode]
            if made:
                newest = max(made, key=lambda state: state.epoch)
                kept = GroupConfig(newest.mode, orjson.loads(newest.options or "{}"))
            else:
                kept = self._node.kept.options_of(group)
            if kept is None:
                check_new(asked.options)
                return asked, True
        check_config(group, kept, asked)
        return kept, False

    def has_nothing(self, member: Member) -> bool:
        """The controller has counted our members, and given us nothing for this one.

        In groups whose members share what the node has. As far as is known here: asked at each
        poll, so ZooKeeper is not. Topics that nobody has are not counted yet: this member may be
        the first that asks for them.
        """
        if not self._node.mode_of(member).shares:
            return False
        given = self._node.reconciler.assignment(member.group)
        if given is None or (mine := given.members.get(self._node.name)) is None:
            return False
        topics = set(member.request.topics)
        counted = any(t.topic in topics for targets in given.members.values() for t in targets)
        return counted and not any(target.topic in topics for target in mine)

    def send_on(self, member: Member) -> None:
        """Queue groups: raise `SentOn` if this node has no work for the member, another has."""
        node = self._node
        given = read_assignment(node.session, member.group)
        if not self.has_nothing(member):
            return
        busiest = [
            name
            for name, targets in given.members.items()
            if any(target.topic in member.request.topics for target in targets)
        ]
        urls = [url for name in sorted(busiest) if (url := node.url_of(name)) is not None]
        if not urls:
            return
        # By the member's id, so that several who are sent on do not all go to one node.
        url = urls[zlib.crc32(member.member_id.encode()) % len(urls)]
        why = f"node {node.name} has no partition of group {member.group}"
        raise self._sent_to(url, member, member_states.Cause.LEFT, why)

    def send_away(self, member: Member) -> None:
        """Raise `SentOn` if this node cannot read the log, and another can."""
        read_failover = self._node.read_failover
        if (url := read_failover.better_node()) is not None:
            raise self._sent_to(url, member, member_states.Cause.UNREADABLE, read_failover.why())

    def _sent_to(self, url: str, member: Member, cause: member_states.Cause, why: str) -> SentOn:
        """The member goes, and its partitions with it; what tells it where to."""
        self._node.members.leave(member, cause)
        self._node.reconciler.wake()
        location = f"{url}/v1/groups/{member.group}/members"
        return SentOn(why, hint="join through the node at location", location=location)

    def heartbeat(self, group: str, member_id: str) -> HeartbeatAnswer:
        """The member is alive. Raises `UnknownMember`."""
        member = self._node.members.get(group, member_id)
        return HeartbeatAnswer(
            assignment=self.assignment(member),
            assignment_version=self._node.reconciler.assignment_version(group),
        )

    def leave(self, group: str, member_id: str, after: int | None = None) -> None:
        """The member goes; its partitions are given back at once. Raises `UnknownMember`.

        `after`: the last answer that it got.
        """
        member = self._node.members.get(group, member_id)
        if after is not None:
            member.end_polls(after, LEAVE_WAIT_S)
        self._node.members.leave(member, member_states.Cause.LEFT)
        self._node.reconciler.wake()
        # So that a seek right after it finds the group idle; if not, it goes by itself.
        member.gone.wait(LEAVE_WAIT_S)

    def assignment(self, member: Member) -> list[Assigned]:
        """What the member (queue groups: its node) has, with its epoch, or is about to have."""
        return [Assigned(**row) for row in self.assigned(member).rows]

    def assigned(self, member: Member) -> AssignmentRows:
        """The same as it leaves."""
        holder = self._node.mode_of(member).holder(member.member_id)
        return self._node.owned_partitions.told(member.group, holder)

    def acks(self, group: str, member_id: str, request: AckRequest) -> Settling:
        """Make acks and positions durable; see `Acks.commit` for the errors."""
        node = self._node
        if node.members.find(group, member_id) is None and is_of_queue_group(request):
            # Receipts are good at whoever has the partition; its members need not be known.
            return self.settle(group, request)
        member = node.members.get(group, member_id)
        return node.mode_of(member).ack(member, request)

    def settle(self, group: str, request: AckRequest) -> Steps[SettleAnswer]:
        """Queue groups: acks, nacks and extensions, whoever sends them; see `QueueAcks.settle`."""
        return self._node.queues.settle(checked_name(group, "group"), request)

    def check_topics(self, member: Member) -> None:
        """Raise `UnknownTopic` if every topic of a member without partitions was deleted."""
        if member.active and not self.assigned(member).rows:
            self._node.topics.refresh()
            check_some_exist(member.request.topics, self._node.topics.list())

    # -- groups -----------------------------------------------------------------------------------

    def list(self) -> GroupList:
        """Every group that ZooKeeper or the tables know."""
        session = self._node.session
        states = read_group_state(self._node.root).states
        names = set(membership.groups(session))
        modes = {key.group: state.mode for key, state in states.items() if not state.deleted}
        modes |= {n: mode for n in names if (mode := membership.group_mode(session, n))}
        names |= {key.group for key, state in states.items() if not state.deleted}
        return GroupList(
            groups=[
                GroupSummary(
                    group=name,
                    mode="queue" if modes.get(name) == "queue" else "stream",
                    members=len(membership.members(session, name)),
                )
                for name in sorted(names)
            ]
        )

    def describe(self, group: str) -> GroupDescription:
        """Positions, lag, owners and members. Raises `UnknownGroup`."""
        node = self._node
        checked_name(group, "group")
        node.topics.refresh()
        node.tailer.catch_up()
        states = read_group_state(node.root, group).states
        return self._described(group, {k: s for k, s in states.items() if not s.deleted})

    def describe_all(self) -> Sequence[GroupDescription]:
        """Every group, by one reading of the tables."""
        node = self._node
        node.topics.refresh()
        node.tailer.catch_up()
        by_group: dict[str, dict[Key, GroupState]] = {}
        for key, state in read_group_state(node.root).states.items():
            if not state.deleted:
                by_group.setdefault(key.group, {})[key] = state
        found = []
        for name in sorted({*by_group, *membership.groups(node.session)}):
            # It may have been deleted since.
            with contextlib.suppress(UnknownGroup):
                found.append(self._described(name, by_group.get(name, {})))
        return found

    def _described(self, group: str, states: dict[Key, GroupState]) -> GroupDescription:
        node = self._node
        present = membership.members(node.session, group)
        config = membership.group_config(node.session, group)
        if config is None and states:
            newest = max(states.values(), key=lambda state: state.epoch)
            config = GroupConfig(newest.mode, orjson.loads(newest.options or "{}"))
        if not states and not present and config is None:
            raise UnknownGroup(
                f"group {group!r} does not exist", hint="its first member creates it"
            )
        owners = leases.leases_of(node.session, group)
        names = {name for member in present.values() for name in member.topics}
        names |= {t.topic for key in states if (t := node.topics.by_id(key.topic_id)) is not None}
        rows = [
            self._row(topic.topic, Key(group, topic.topic_id, Partition(number)), states, owners)
            for topic in node.topics.list()
            if topic.topic in names
            for number in range(topic.partitions)
        ]
        given = read_assignment(node.session, group)
        # A new ensemble does not know a group that nobody has joined there yet.
        pauses, change = read_pauses(node.session, group)
        pauses = pauses if change else node.kept.pauses_of(group)
        for row in rows:
            row.paused = pauses.paused(row.topic, row.partition)
        return GroupDescription(
            group=group,
            mode="queue" if config is not None and config.mode == "queue" else "stream",
            options=shown(config),
            generation=max((state.generation for state in states.values()), default=None),
            paused=pauses.paused(),
            partitions=rows,
            members=[
                MemberState(
                    member_id=member.member_id,
                    topics=[*member.topics],
                    node=member.node,
                    host=member.client or None,
                    partitions=len(given.of(member.member_id)),
                )
                for member in present.values()
            ],
        )

    def _row(
        self,
        topic: str,
        key: Key,
        states: dict[Key, GroupState],
        owners: dict[tuple[str, int], Any],
    ) -> PartitionRow:
        node = self._node
        state = states.get(key)
        committed = None if state is None else state.committed_offset
        where = TopicPartition(key.topic_id, key.partition)
        start, end = node.tailer.first(where), node.tailer.end(where)
        lease = owners.get((key.topic_id, key.partition))
        owned = node.owned_partitions.get(key)
        expires = None
        if lease is not None and owned is not None and owned.trusted():
            expires = owned.trusted_for_ms()
        counts = open_counts(state, owned) if state is not None and state.mode == "queue" else {}
        return PartitionRow(
            topic=topic,
            topic_id=key.topic_id,
            partition=key.partition,
            committed_offset=committed,
            start_offset=start,
            end_offset=end,
            lag=lag_of(state, start, end),
            owner=None if lease is None else lease.owner.member,
            node=None if lease is None else lease.owner.node,
            epoch=None if lease is None else lease.epoch,
            lease_expires_ms=expires,
            **counts,
        )
