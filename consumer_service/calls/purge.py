"""Purging a queue group: everything that is there now counts as settled, whoever has it.

A purge is a seek to the end that need not wait until the group is idle: whoever owns a partition
commits it under its own epoch, in a new generation, so that receipts from before are refused. What
another node owns is asked of it; what nobody owns is owned for a moment, as in a seek.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial

import orjson

from consumer_service.calls.seek import Seeks
from consumer_service.node import Node
from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.ownership.settlement import Settlement
from consumer_service.ownership.takeover import fact_of
from coordination.groups import leases, membership
from lakequeue.calling import blocking_runner
from lakequeue.calling.calls import CallPolicy, call
from lakequeue.calling.effects import Request
from lakequeue.calling.nodes import Nodes
from lakequeue.clock import boot_seconds, wall_micros
from lakequeue.errors import GroupActive, InvalidRequest, LakequeueError, NotReady, UnknownGroup
from lakequeue.records import Partition, checked_name
from lakequeue.wire import PurgeAnswer, Purged, PurgeRequest
from queue_rules.queues.partition import QueuePartition
from queue_tables.groups.facts import Key, Kind
from queue_tables.groups.record_states import RecordStates
from queue_tables.groups.state import read_group_state
from queue_tables.schema.topic_rules import Topic

PATIENCE_S = 15.0
"""How long partitions that change hands are waited for."""
AGAIN_S = 0.2


class Purges:
    """Thread-safe."""

    def __init__(self, node: Node, seeks: Seeks) -> None:
        self._node = node
        self._seeks = seeks

    def purge(self, group: str, request: PurgeRequest) -> PurgeAnswer:
        """Purge; 200 when it is durable everywhere.

        Raises `UnknownGroup`, `UnknownTopic`, `InvalidRequest` for a stream group; `NotReady` when
        some partitions kept changing hands: those that were purged are.
        """
        node = self._node
        checked_name(group, "group")
        node.topics.refresh()
        node.tailer.catch_up()
        left = self._chosen(group, request)
        done: dict[Key, Purged] = {}
        deadline = boot_seconds() + PATIENCE_S
        while left:
            done |= {key: at for key in left if (at := self._purge_here(key)) is not None}
            if request.here:
                break
            done |= self._elsewhere(group, [k for k in left if k not in done], left)
            left = {key: topic for key, topic in left.items() if key not in done}
            if left and boot_seconds() > deadline:
                raise NotReady(
                    f"{len(left)} partitions of group {group!r} kept changing hands, "
                    f"{len(done)} are purged",
                    hint="purge again",
                    retry_after_s=1.0,
                )
            if left and node.draining.wait(AGAIN_S):
                raise NotReady("this node is stopping", hint="purge through another node")
        return PurgeAnswer(partitions=[done[key] for key in sorted(done)])

    def _chosen(self, group: str, request: PurgeRequest) -> dict[Key, Topic]:
        node = self._node
        kept = membership.group_config(node.session, group)
        states = read_group_state(node.root, group).states
        known = {key.topic_id for key, state in states.items() if not state.deleted}
        if kept is None and not known:
            raise UnknownGroup(
                f"group {group!r} does not exist", hint="its first member creates it"
            )
        if self._seeks.mode_of(group, states) != "queue":
            raise InvalidRequest(
                f"group {group!r} is a stream group",
                hint="seek it to latest",
                field="group",
            )
        if request.topics is not None:
            topics = [node.topics.get(name) for name in request.topics]
        else:
            present = membership.members(node.session, group).values()
            names = {name for member in present for name in member.topics}
            topics = [t for t in node.topics.list() if t.topic_id in known or t.topic in names]
        return {
            Key(group, topic.topic_id, Partition(number)): topic
            for topic in topics
            for number in range(topic.partitions)
        }

    def _elsewhere(
        self, group: str, keys: Iterable[Key], topics: dict[Key, Topic]
    ) -> dict[Key, Purged]:
        """What other nodes own, and what nobody does."""
        owners = leases.leases_of(self._node.session, group)
        free: list[Key] = []
        asked: dict[str, list[Key]] = {}
        for key in keys:
            entry = owners.get((key.topic_id, key.partition))
            if entry is None:
                free.append(key)
            elif entry.owner.node != self._node.name:
                asked.setdefault(entry.owner.node, []).append(key)
        found: dict[Key, Purged] = {}
        for name, some in asked.items():
            url = self._node.url_of(name)
            if url is not None:
                found |= self._ask(url, group, {key: topics[key] for key in some})
        if free:
            try:
                ends = self._seeks.move_free_to_end(group, {k: topics[k].topic for k in free})
            except GroupActive:
                # Somebody owns them by now, and is asked in the next round.
                return found
            found |= {key: _purged(topics[key].topic, key, end) for key, end in ends.items()}
        return found

    def _ask(self, url: str, group: str, topics: dict[Key, Topic]) -> dict[Key, Purged]:
        names = sorted({topic.topic for topic in topics.values()})
        body = orjson.dumps({"topics": names, "here": True})
        script = call(
            Nodes(url),
            Request("POST", f"/v1/groups/{group}/purge", body=body),
            time.monotonic,
            CallPolicy(PATIENCE_S, self._node.draining.is_set),
        )
        http = blocking_runner.open_http({}, [url])
        try:
            reply = blocking_runner.run(script, http, blocking_runner.new_signal()).reply
        except LakequeueError:
            # It stops, or dies: who takes its partitions is asked in the next round.
            return {}
        finally:
            http.close()
        answer = PurgeAnswer.model_validate_json(reply.body)
        purged = {(one.topic, one.partition): one for one in answer.partitions}
        places = {(topic.topic, int(key.partition)): key for key, topic in topics.items()}
        return {places[place]: one for place, one in purged.items() if place in places}

    def _purge_here(self, key: Key) -> Purged | None:
        """Purge a partition that this node owns; None if it does not, or no longer."""
        owned = self._node.owned_partitions.get(key)
        if owned is None:
            return None
        with owned.fetching:
            # Nothing is taken meanwhile, so nothing behind the end is delivered before it.
            end = self._node.tailer.end(owned.where)
            with Settlement(self._node.journal, [owned]) as settlement:
                if owned.queue is None or not owned.delivers or not owned.trusted():
                    return None
                fact = fact_of(Kind.SEEK, owned, owned.generation + 1, end, wall_micros())
                settlement.submit([fact], partial(_finish, int(end)))
            settlement.wait("it may be purged or not; purge again")
            if settlement.newer_epoch(owned) is not None or not owned.trusted():
                return None
        self._node.waiters.news(key.group)
        return _purged(owned.topic, key, end)


def _finish(end: int, owned: OwnedPartition, stands: bool) -> None:
    """In the committer's thread: in the new generation all below `end` is settled."""
    if stands and owned.queue is not None:
        owned.generation += 1
        owned.start = end
        owned.queue = QueuePartition(owned.queue.policy, RecordStates.settled((0, end)))
        owned.rows = None
        owned.unflushed = []


def _purged(topic: str, key: Key, end: int) -> Purged:
    return Purged(topic=topic, partition=key.partition, offset=end)
