"""Calls about members and groups, as the HTTP layer makes them: join, leave, describe, list."""

from __future__ import annotations

from typing import Any

from consumer_service import member_states
from consumer_service.acks import wanted_of
from consumer_service.delivery import Delivered
from consumer_service.members import Member
from consumer_service.node import Node
from consumer_service.partition_states import PartitionState
from consumer_service.start import latest_below
from coordination import leases, membership
from coordination.controller import read_assignment
from lakequeue.errors import InvalidRequest, UnknownGroup
from lakequeue.records import Partition, TopicPartition, checked_name
from lakequeue.wire import (
    AckAnswer,
    AckRequest,
    Assigned,
    GroupDescription,
    GroupList,
    GroupSummary,
    HeartbeatAnswer,
    JoinAnswer,
    JoinRequest,
    MemberState,
)
from lakequeue.wire import (
    PartitionState as PartitionRow,
)
from queue_tables.facts import GroupState, Key
from queue_tables.group_state import read_group_state

LEAVE_WAIT_S = 2.0


class Groups:
    """The verbs of a stream group; thread-safe."""

    def __init__(self, node: Node) -> None:
        self._node = node

    # -- members ----------------------------------------------------------------------------------

    def join(self, group: str, request: JoinRequest, host: str) -> JoinAnswer:
        """Add a member. Errors: `InvalidRequest`, `InvalidName`, `UnknownTopic`, `NotReady`."""
        node = self._node
        checked_name(group, "group")
        if request.mode != "stream":
            raise InvalidRequest(
                f"mode {request.mode!r} is not in this release",
                hint='join with mode "stream"; queue groups come in a later release',
                field="mode",
            )
        topics = [node.topics.get(name) for name in dict.fromkeys(request.topics)]
        partitions = {topic.topic_id: topic.partitions for topic in topics}
        known: list[Key] = []
        if request.from_ == "latest":
            states = read_group_state(node.root, group).states
            known = [key for key, state in states.items() if not state.deleted]
        member = node.members.new(group, request, host)
        member.latest_below = latest_below(request.from_, partitions, known)
        entry = membership.Member(
            member.member_id,
            tuple(topic.topic for topic in topics),
            node.name,
            request.mode,
            client=host,
        )
        try:
            membership.join(node.session, group, entry)
        except BaseException:
            node.members.leave(member, member_states.Cause.LEFT)
            raise
        node.members.joined(member)
        node.keeper.look()
        return JoinAnswer(
            member_id=member.member_id,
            assignment=self.assignment(member),
            assignment_version=node.keeper.assignment_version(group),
            session_timeout_ms=member.session_timeout_ms,
        )

    def heartbeat(self, group: str, member_id: str) -> HeartbeatAnswer:
        """The member is alive. Raises `UnknownMember`."""
        member = self._node.members.get(group, member_id)
        return HeartbeatAnswer(
            assignment=self.assignment(member),
            assignment_version=self._node.keeper.assignment_version(group),
        )

    def leave(self, group: str, member_id: str) -> None:
        """The member goes; its partitions are given back at once. Raises `UnknownMember`."""
        member = self._node.members.get(group, member_id)
        self._node.members.leave(member, member_states.Cause.LEFT)
        self._node.keeper.look()
        # So that a seek right after it finds the group idle; if not, it goes by itself.
        member.gone.wait(LEAVE_WAIT_S)

    def assignment(self, member: Member) -> list[Assigned]:
        """What the member has (with its epoch) or is about to have."""
        return [
            Assigned(
                topic=held.topic,
                partition=held.key.partition,
                epoch=held.epoch if held.delivers else None,
                generation=held.generation,
                start=held.start if held.delivers else None,
            )
            for held in self._node.holdings.of_member(member.group, member.member_id)
            if held.state is not PartitionState.RELEASING
        ]

    def acks(self, group: str, member_id: str, request: AckRequest) -> AckAnswer:
        """Make acks and positions durable; see `Acks.commit` for the errors."""
        node = self._node
        member = node.members.get(group, member_id)
        ids = {name: node.topics.get(name).topic_id for name in member.request.topics}
        wanted = wanted_of(group, request, ids)
        ends = {k: node.tailer.end(TopicPartition(k.topic_id, k.partition)) for k in wanted}
        answer = node.acks.commit(member_id, wanted, ends, through=request.commit_through)
        member.liveness.progress(member.liveness.seen)
        return answer

    def commit_delivered(self, member: Member, delivered: Delivered) -> None:
        """At-most-once: what is about to leave is committed first."""
        node = self._node
        ids = {name: node.topics.get(name).topic_id for name in member.request.topics}
        request = AckRequest(acks=[r["receipt"] for r in delivered.records])
        wanted = wanted_of(member.group, request, ids)
        node.acks.commit(member.member_id, wanted, {}, through=True)

    # -- groups -----------------------------------------------------------------------------------

    def list(self) -> GroupList:
        """Every group that ZooKeeper or the tables know."""
        session = self._node.session
        states = read_group_state(self._node.root).states
        names = set(membership.groups(session))
        names |= {key.group for key, state in states.items() if not state.deleted}
        return GroupList(
            groups=[
                GroupSummary(group=name, members=len(membership.members(session, name)))
                for name in sorted(names)
            ]
        )

    def describe(self, group: str) -> GroupDescription:
        """Positions, lag, owners and members. Raises `UnknownGroup`."""
        node = self._node
        checked_name(group, "group")
        node.topics.refresh()
        node.tailer.catch_up()
        states = {
            k: s for k, s in read_group_state(node.root, group).states.items() if not s.deleted
        }
        present = membership.members(node.session, group)
        if not states and not present and membership.group_mode(node.session, group) is None:
            raise UnknownGroup(
                f"group {group!r} does not exist", hint="its first member creates it"
            )
        owners = leases.held(node.session, group)
        names = {name for member in present.values() for name in member.topics}
        names |= {t.topic for key in states if (t := node.topics.by_id(key.topic_id)) is not None}
        rows = [
            self._row(topic.topic, Key(group, topic.topic_id, Partition(number)), states, owners)
            for topic in node.topics.list()
            if topic.topic in names
            for number in range(topic.partitions)
        ]
        given = read_assignment(node.session, group)
        return GroupDescription(
            group=group,
            generation=max((state.generation for state in states.values()), default=None),
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
        held = node.holdings.get(key)
        expires = None
        if lease is not None and held is not None and held.trusted():
            expires = held.trusted_for_ms()
        return PartitionRow(
            topic=topic,
            topic_id=key.topic_id,
            partition=key.partition,
            committed_offset=committed,
            start_offset=start,
            end_offset=end,
            lag=max(0, end - max(start, committed or 0)),
            owner=None if lease is None else lease.owner.member,
            node=None if lease is None else lease.owner.node,
            epoch=None if lease is None else lease.epoch,
            lease_expires_ms=expires,
        )
