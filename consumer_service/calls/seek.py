"""Moving or deleting the position of a group that has no live member.

A seek is a short ownership of its own: it takes the leases, goes through the whole take-over (so
that nobody who owned a partition before can commit any more, and a seek that is overtaken can
not either), commits its facts in a new generation, and gives the leases back.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import orjson

from consumer_service.node import Node
from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.ownership.partition_states import Cause, PartitionState
from consumer_service.ownership.settlement import check_trusted
from consumer_service.ownership.takeover import Takeover, fact_of
from coordination.groups import leases, membership
from coordination.groups.leases import Owner
from lakequeue.clock import wall_micros
from lakequeue.errors import (
    EpochSuperseded,
    GroupActive,
    UnknownGroup,
)
from lakequeue.records import TopicPartition, checked_name
from lakequeue.wire import SeekAnswer, SeekMove, SeekRequest
from queue_rules.groups.group_config import GroupConfig, check_config
from queue_rules.groups.seek_targets import Bounds, check_request, chosen_of, target_of, topics_of
from queue_rules.predicates.of_group import check_new, predicate_of
from queue_tables.groups.facts import Key, Kind, States
from queue_tables.groups.state import read_group_state
from queue_tables.schema.topic_rules import Topic

LEASE_WAIT_S = 3.0
"""How long a member that has just left may take to give its partitions back."""


def config_in(states: States) -> GroupConfig:
    """What the tables say of a group that ZooKeeper has lost, or never had. Pure.

    A seek that makes a group makes a stream group.
    """
    made = [state for state in states.values() if state.mode and not state.deleted]
    if not made:
        return GroupConfig("stream")
    newest = max(made, key=lambda state: state.epoch)
    return GroupConfig(newest.mode, orjson.loads(newest.options or "{}"))


class Seeks:
    """Seek and delete; thread-safe."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def seek(self, group: str, request: SeekRequest) -> SeekAnswer:
        """Move the group. Raises `GroupActive`, `UnknownGroup`, `UnknownTopic`, …"""
        node = self._node
        checked_name(group, "group")
        check_request(request)
        predicate_of({"predicate": request.predicate})
        node.topics.refresh()
        node.tailer.catch_up()
        states = read_group_state(node.root, group).states
        self._refuse_if_active(group)
        if request.predicate is not None and self._is_new(group, states):
            check_new({"predicate": request.predicate})
        chosen = self._chosen(group, request, states)
        moves: dict[Key, SeekMove] = {}
        for key, topic in chosen.items():
            state = states.get(key)
            committed = None if state is None else state.committed_offset
            where = TopicPartition(key.topic_id, key.partition)
            bounds = Bounds(node.tailer.first(where), node.tailer.end(where))
            by_time = None
            if request.time is not None:
                by_time = node.tailer.offset_at(where, request.time)
            moves[key] = SeekMove(
                topic=topic.topic,
                partition=key.partition,
                from_offset=committed,
                to_offset=target_of(request, committed, bounds, by_time),
            )
        if not request.dry_run and moves:
            mode = self._ensure(group, states, request.predicate)
            topics = {key: topic.topic for key, topic in chosen.items()}
            with self._owned(group, topics, mode) as owned:
                self._commit(Kind.SEEK, owned, {k: m.to_offset for k, m in moves.items()})
        return SeekAnswer(executed=not request.dry_run, partitions=list(moves.values()))

    def mode_of(self, group: str, states: States) -> str:
        """ "stream" or "queue", as ZooKeeper says, else the tables."""
        kept = membership.group_config(self._node.session, group)
        return (kept or config_in(states)).mode

    def move_free_to_end(self, group: str, topics: dict[Key, str]) -> dict[Key, int]:
        """Move partitions that nobody owns to their ends; these. Raises `GroupActive`."""
        node = self._node
        mode = self._ensure(group, read_group_state(node.root, group).states)
        with self._owned(group, topics, mode) as owned:
            # Only now: what was delivered by an owner in between is below it.
            node.tailer.catch_up()
            ends = {owned.key: int(node.tailer.end(owned.where)) for owned in owned}
            self._commit(Kind.SEEK, owned, ends)
        return ends

    def delete(self, group: str) -> None:
        """Delete the group, durably. Raises `GroupActive`, `UnknownGroup`."""
        node = self._node
        checked_name(group, "group")
        states = {
            k: s for k, s in read_group_state(node.root, group).states.items() if not s.deleted
        }
        known = membership.group_mode(node.session, group) is not None
        if not states and not known:
            if node.kept.forget(group):  # a run that died had deleted the rest
                return
            raise UnknownGroup(
                f"group {group!r} does not exist", hint="GET /v1/groups lists those that do"
            )
        self._refuse_if_active(group)
        if states:
            mode = self._ensure(group, states)
            with self._owned(group, {k: s.topic for k, s in states.items()}, mode) as owned:
                self._commit(Kind.GROUP_DELETED, owned, {})
        membership.delete_group(node.session, group)
        node.kept.forget(group)

    def _ensure(self, group: str, states: States, predicate: str | None = None) -> str:
        """See that ZooKeeper knows the group, as it is; its mode.

        `predicate` is a new group's, and any other's has to be the same. Raises `GroupMismatch`.
        """
        options = {} if predicate is None else {"predicate": predicate}
        if self._is_new(group, states):
            kept = GroupConfig("stream", options)
        else:
            kept = membership.group_config(self._node.session, group) or config_in(states)
        if options:
            check_config(group, kept, GroupConfig("stream", options))
        node = self._node
        membership.ensure_group(node.session, group, kept.mode, kept.options, node.kept.begin)
        return kept.mode

    def _is_new(self, group: str, states: States) -> bool:
        known = membership.group_config(self._node.session, group)
        return known is None and all(state.deleted for state in states.values())

    def _refuse_if_active(self, group: str) -> None:
        present = membership.members(self._node.session, group)
        if present:
            names = ", ".join(
                f"{m.member_id} ({m.client or 'unknown host'}, node {m.node})"
                for m in present.values()
            )
            raise GroupActive(
                f"group {group!r} has live members, {len(present)}: {names}",
                hint="stop them first; a killed one is gone after its session timeout",
                members=sorted(present),
            )

    def _chosen(self, group: str, request: SeekRequest, states: States) -> dict[Key, Topic]:
        topics = self._node.topics
        known = {key.topic_id for key, state in states.items() if not state.deleted}
        some = topics_of(group, request, known, topics.list(), topics.get)
        return {
            Key(group, where.topic_id, where.partition): topic
            for where, topic in chosen_of(some, request.partition).items()
        }

    @contextmanager
    def _owned(
        self, group: str, topics: dict[Key, str], mode: str
    ) -> Iterator[list[OwnedPartition]]:
        """Own the partitions for a moment, as a member that nobody else knows."""
        node = self._node
        seeker = f"seek-{uuid.uuid4().hex[:12]}"
        batch: list[OwnedPartition] = []
        try:
            for key, topic in sorted(topics.items()):
                owned = OwnedPartition(key, topic, seeker, mode=mode, options=self._options(group))
                owned.move(Cause.ASSIGNED)
                owner = Owner(node.name, node.journal.shard, seeker)
                owned.lease = leases.acquire_when_free(node.session, *key, owner, 0, LEASE_WAIT_S)
                if owned.lease is None:
                    self._refuse_lease(key, topic)
                owned.move(Cause.LEASED)
                batch.append(owned)
            takeover = Takeover(node.root, node.journal, node.tailer.marks, node.modes)
            takeover.run(batch, lambda _: None)
            lost = [owned for owned in batch if owned.state is not PartitionState.OWNED]
            if lost:
                raise EpochSuperseded(
                    f"partition {lost[0].key.partition} of {lost[0].topic} was taken by another",
                    hint="is another seek running? try again",
                    stored="no",
                )
            yield batch
        finally:
            for owned in batch:
                if owned.lease is not None:
                    leases.release(owned.lease)

    def _options(self, group: str) -> str:
        config = membership.group_config(self._node.session, group)
        return "" if config is None else orjson.dumps(dict(config.options)).decode()

    def _refuse_lease(self, key: Key, topic: str) -> None:
        entry = leases.leases_of(self._node.session, key.group).get((key.topic_id, key.partition))
        owner = (
            "another process" if entry is None else f"{entry.owner.member} on {entry.owner.node}"
        )
        raise GroupActive(
            f"partition {key.partition} of {topic} is held by {owner}",
            hint="wait until it is given back, at most a session timeout, and try again",
        )

    def _commit(self, kind: Kind, owned: list[OwnedPartition], offsets: dict[Key, int]) -> None:
        at = wall_micros()
        facts = [
            fact_of(kind, owned, owned.generation + 1, offsets.get(owned.key), at)
            for owned in owned
        ]
        refused = self._node.journal.commit(facts, "describe the group to see whether it has moved")
        if refused:
            raise EpochSuperseded(
                f"{len(refused)} of {len(owned)} partitions were taken by another meanwhile",
                hint="describe the group, then seek again",
                stored="no",
            )
        check_trusted(owned, "describe the group to see whether it has moved")
