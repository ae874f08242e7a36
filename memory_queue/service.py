"""Both services as one function: a request of the wire in, its answer out."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from lakequeue import wire
from lakequeue.calling.effects import Reply
from lakequeue.client.redrive_parts import redrive_part
from lakequeue.errors import (
    InvalidRequest,
    LakequeueError,
    UnknownMember,
    UnsupportedMediaType,
)
from lakequeue.wire.parsing import valid
from memory_queue import positions, streams
from memory_queue.calls import Aside, Call, Later, object_of, refusal_of, reply_of
from memory_queue.clock import Clock
from memory_queue.groups import Group, Groups, ModelMember
from memory_queue.log import Log
from memory_queue.queues import Queues, next_due
from memory_queue.topics import Topics
from queue_rules.groups.group_config import GroupConfig
from queue_rules.groups.join_rules import check_some_exist
from queue_rules.groups.member_states import Cause
from queue_rules.groups.pause_responses import check_pause
from queue_rules.groups.pause_responses import response_of as pause_answer_of
from queue_rules.predicates.of_group import predicate_of
from queue_rules.produce.json_body import json_request_of, parts_of
from queue_rules.produce.validation import Limits
from queue_rules.queues.retry_policy import check_retry
from queue_tables.schema.topic_rules import refuse_if_open

_NAME: Final = "([^/?]+)"
_RECORD: Final = f"/topics/{_NAME}/partitions/(-?\\d+)/records/(-?\\d+)"
_MEMBER: Final = f"/v1/groups/{_NAME}/members/{_NAME}"


class Service:
    """Thread-safe."""

    def __init__(self, url: str = "") -> None:
        """`url`: where clients find it."""
        self._url = url
        self.stopping = threading.Event()
        self.clock = Clock(self.changed)
        self._lock = threading.RLock()
        self._topics = Topics()
        self.log = Log(self._topics, self.clock.micros)
        self._groups = Groups(self._topics, self.log)
        self._queues = Queues(self._topics, self.log)
        self._waiting: set[Callable[[], None]] = set()
        self._routes: list[tuple[str, re.Pattern[str], Callable[..., Any]]] = [
            (method, re.compile(pattern + r"\Z"), answer)
            for method, pattern, answer in (
                ("GET", "/v1/topics", self._list_topics),
                ("PUT", f"/v1/topics/{_NAME}", self._create_topic),
                ("GET", f"/v1/topics/{_NAME}", self._topic),
                ("PATCH", f"/v1/topics/{_NAME}", self._alter_topic),
                ("DELETE", f"/v1/topics/{_NAME}", self._delete_topic),
                ("POST", f"/v1/topics/{_NAME}/records", self._produce),
                ("POST", f"/v1/topics/{_NAME}/redrive", self._redrive),
                ("POST", f"/v1/topics/{_NAME}/settle", self._settle_topic),
                ("POST", "/v1/records", self._produce_parts),
                ("POST", f"/v1/producers/{_NAME}/epochs", self._begin_epoch),
                ("GET", f"/v1/topics/{_NAME}/records", self._page),
                ("GET", f"/v1{_RECORD}", self._record),
                ("GET", "/v1/groups", self._list_groups),
                ("GET", f"/v1/groups/{_NAME}", self._describe),
                ("DELETE", f"/v1/groups/{_NAME}", self._delete_group),
                ("PUT", f"/v1/groups/{_NAME}", self._create_group),
                ("GET", f"/v1/groups/{_NAME}{_RECORD}", self._status),
                ("GET", f"/v1/groups/{_NAME}/topics/{_NAME}/counts", self._counts),
                ("POST", f"/v1/groups/{_NAME}/seek", self._seek),
                ("POST", f"/v1/groups/{_NAME}/(pause|resume)", self._pause),
                ("POST", f"/v1/groups/{_NAME}/purge", self._purge),
                ("POST", f"/v1/groups/{_NAME}/receive", self._receive),
                ("POST", f"/v1/groups/{_NAME}/acks", self._settle),
                ("POST", f"/v1/groups/{_NAME}/members", self._join),
                ("DELETE", _MEMBER, self._leave),
                ("POST", f"{_MEMBER}/heartbeat", self._heartbeat),
                ("GET", f"{_MEMBER}/records", self._poll),
                ("POST", f"{_MEMBER}/records", self._work),
                ("POST", f"{_MEMBER}/acks", self._acks),
            )
        ]

    # -- whoever waits ----------------------------------------------------------------------------

    def watch(self, wake: Callable[[], None]) -> None:
        """Call `wake` at every change, until `unwatch`."""
        with self._lock:
            self._waiting.add(wake)

    def unwatch(self, wake: Callable[[], None]) -> None:
        """As it says."""
        with self._lock:
            self._waiting.discard(wake)

    def changed(self) -> None:
        """Let everyone who waits look again."""
        with self._lock:
            for wake in self._waiting:
                wake()

    def expire(self, member_id: str) -> None:
        """A member is gone, as after its session timeout. Raises `UnknownMember`."""
        with self._lock:
            group = self._groups.find(member_id)
            if group is None:
                raise UnknownMember(f"{member_id!r} is a member of no group", hint="it has left")
            self._groups.leave(group.name, member_id, Cause.SILENT)
            self.changed()

    # -- the call ---------------------------------------------------------------------------------

    def answer(self, call: Call) -> Reply | Later | Aside:
        """Do what is asked, now if that can be."""
        with self._lock:
            before = self.log.count
            said: tuple[int, Any] | Later | Aside | None = None
            try:
                said = self._route(call)
            except LakequeueError as error:
                return refusal_of(call, error)
            finally:
                # A refusal may have done a part, and a poll may have found something dead.
                asked = call.method == "GET" or isinstance(said, Later | Aside)
                if not asked or self.log.count != before:
                    self.changed()
            return said if isinstance(said, Later | Aside) else reply_of(*said)

    def _route(self, call: Call) -> tuple[int, Any] | Later | Aside:
        for method, pattern, answer in self._routes:
            found = pattern.match(call.path)
            if found is not None and method == call.method:
                said: tuple[int, Any] | Later | Aside = answer(call, *found.groups())
                return said
        raise InvalidRequest(
            f"{call.method} {call.path} is not there in memory",
            hint="webhooks and server-sent events need the services: lakequeue up",
        )

    # -- topics and records -----------------------------------------------------------------------

    def _list_topics(self, _call: Call) -> tuple[int, Any]:
        return 200, {"topics": [topic.description for topic in self._topics.list()]}

    def _topic(self, _call: Call, name: str) -> tuple[int, Any]:
        return 200, self._topics.get(name).description

    def _create_topic(self, call: Call, name: str) -> tuple[int, Any]:
        topic, created = self._topics.create(name, object_of(call.body))
        return self._altered(topic.description, 201 if created else 200)

    def _alter_topic(self, call: Call, name: str) -> tuple[int, Any]:
        altered = self._topics.alter(name, object_of(call.body), self.clock.micros())
        return self._altered(altered.description, 200)

    def _delete_topic(self, _call: Call, name: str) -> tuple[int, Any]:
        self._topics.delete(name)
        return self._altered(None, 204)

    def _altered(self, body: Any, status: int) -> tuple[int, Any]:
        self._groups.topics_changed()
        return status, body

    def _limits_of(self, name: str) -> tuple[str, Limits]:
        topic = self._topics.get(name)
        return topic.topic_id, self.log.limits_of(topic)

    def _produce(self, call: Call, name: str) -> tuple[int, Any]:
        if call.content_type == wire.ARROW_STREAM:
            # Users' tests run without Arrow: a producer sends JSON when it is told so.
            raise UnsupportedMediaType("the queue in memory takes JSON", hint=wire.JSON)
        query = valid(wire.ProduceQuery, call.query, texts=True)
        topic = self._topics.get(name)
        parsed = json_request_of(call.body, topic.topic_id, self.log.limits_of(topic))
        return 200, self.log.produce([parsed], [topic], range(len(parsed.rows)), query)

    def _produce_parts(self, call: Call) -> tuple[int, Any]:
        query = valid(wire.ProduceQuery, call.query, texts=True)
        parts = parts_of(call.body, self._limits_of, wire.MAX_REQUEST_RECORDS)
        topics = [self._topics.get(topic) for topic in parts.topics]
        return 200, self.log.produce(parts.requests, topics, parts.numbers, query)

    def _redrive(self, call: Call, name: str) -> Aside:
        request = valid(wire.RedriveRequest, object_of(call.body))

        def run() -> Reply:
            try:
                part = redrive_part(name, request, [self._url], self._url, self.stopping.is_set)
            except LakequeueError as error:
                return refusal_of(call, error)
            return reply_of(200, part)

        return Aside(run)

    def _settle_topic(self, _call: Call, name: str) -> tuple[int, Any]:
        # What is taken is ordered: there is nothing to seal, or to wait for.
        topic = self._topics.get(name)
        refuse_if_open(topic, self.clock.micros())
        return 200, wire.SettledTopic(topic=topic.topic, sealed_shards=0)

    def _begin_epoch(self, _call: Call, producer_id: str) -> tuple[int, Any]:
        return 201, self.log.begin_epoch(producer_id)

    def _page(self, call: Call, name: str) -> tuple[int, Any]:
        # Not through pydantic: values are JSON already.
        query = valid(wire.BrowseQuery, call.query, texts=True)
        return 200, vars(positions.page(self.log, self._topics.get(name), query))

    def _record(self, _call: Call, name: str, partition: str, offset: str) -> tuple[int, Any]:
        where = self.log, self._topics.get(name), int(partition), int(offset)
        return 200, positions.record(*where)

    # -- groups and members -----------------------------------------------------------------------

    def _list_groups(self, _call: Call) -> tuple[int, Any]:
        found = sorted(self._groups.by_name.values(), key=lambda group: group.name)
        rows = [{"group": g.name, "mode": g.config.mode, "members": len(g.members)} for g in found]
        return 200, {"groups": rows}

    def _describe(self, _call: Call, name: str) -> tuple[int, Any]:
        return 200, positions.describe(self._groups, self.log, name)

    def _status(
        self, _call: Call, name: str, topic: str, partition: str, offset: str
    ) -> tuple[int, Any]:
        found = self._topics.get(topic)
        group = self._groups.get(name)
        where = self._groups, self.log, group, found, int(partition), int(offset)
        return 200, positions.status(*where, self.clock.micros())

    def _counts(self, _call: Call, name: str, topic: str) -> tuple[int, Any]:
        where = self._groups, self.log, name, self._topics.get(topic)
        return 200, positions.counts(*where, self.clock.micros())

    def _delete_group(self, _call: Call, name: str) -> tuple[int, Any]:
        self._groups.delete(name)
        return 204, None

    def _seek(self, call: Call, name: str) -> tuple[int, Any]:
        request = valid(wire.SeekRequest, object_of(call.body))
        return 200, positions.seek(self._topics, self._groups, self.log, name, request)

    def _create_group(self, call: Call, name: str) -> tuple[int, Any]:
        request = valid(wire.QueueGroupRequest, object_of(call.body))
        check_retry(request, [], self._topics.by_name)
        predicate_of(request.given())
        group = self._groups.made(name, GroupConfig("queue", request.given()))
        return 200, wire.QueueGroupAnswer(group=name, options=dict(group.config.options))

    def _pause(self, call: Call, name: str, verb: str) -> tuple[int, Any]:
        request = valid(wire.PauseRequest, object_of(call.body))
        check_pause(request, self._topics.get)
        group = self._groups.get(name)
        paused = verb == "pause"
        group.pauses = group.pauses.changed(paused, request.topic, request.partitions)
        return 200, pause_answer_of(name, group.pauses)

    def _purge(self, call: Call, name: str) -> tuple[int, Any]:
        request = valid(wire.PurgeRequest, object_of(call.body))
        return 200, positions.purge(self._topics, self._groups, self.log, name, request)

    def _receive(self, call: Call, name: str) -> tuple[int, Any] | Later:
        asked = valid(wire.ReceiveRequest, object_of(call.body))
        group, member = self._groups.anonymous_member(name, asked.topics or [name])
        now = self.clock.micros()
        records = self._queues.poll(group, member, now, asked.max, asked.visibility_timeout_ms)
        left_s = asked.wait_ms / 1_000 - call.waited_s
        if not records and left_s > 0:
            return Later(_look_in_s(group, member, now, left_s))
        return 200, {"records": records}

    def _settle(self, call: Call, name: str) -> tuple[int, Any]:
        """Receipts are good whoever sends them."""
        request = valid(wire.AckRequest, object_of(call.body))
        group = self._groups.get(name)
        return 200, self._queues.settle(group, request, self.clock.micros(), self._names())

    def _names(self) -> dict[str, str]:
        return {str(topic.topic_id): topic.topic for topic in self._topics.list()}

    def _join(self, call: Call, name: str) -> tuple[int, Any]:
        request = valid(wire.JoinRequest, object_of(call.body))
        return 201, self._groups.join(name, request, call.host)

    def _leave(self, call: Call, name: str, member_id: str) -> tuple[int, Any]:
        query = valid(wire.LeaveQuery, call.query, texts=True)
        self._groups.leave(name, member_id, after=query.after)
        return 204, None

    def _heartbeat(self, _call: Call, name: str, member_id: str) -> tuple[int, Any]:
        group, member = self._groups.member(name, member_id)
        return 200, wire.HeartbeatAnswer(
            assignment=group.assigned(member), assignment_version=group.version
        )

    def _work(self, call: Call, name: str, member_id: str) -> tuple[int, Any]:
        """Acks and a poll, which waits for nothing here: the acks would be settled at each look."""
        asked = valid(wire.WorkRequest, object_of(call.body))
        group, _ = self._groups.member(name, member_id)
        outcome = self._queues.outcome(group, asked, self.clock.micros(), self._names())
        query = wire.PollQuery(max=asked.max, wait_ms=0, after=asked.after)
        polled = self._polled(name, member_id, query, 0.0)
        body = {} if isinstance(polled, Later) else polled[1]
        settled = [one.model_dump() for one in outcome.settled if one.due or one.deadline]
        return 200, body | {
            "settled": settled,
            "refused": [one.model_dump() for one in outcome.refused],
        }

    def _poll(self, call: Call, name: str, member_id: str) -> tuple[int, Any] | Later:
        query = valid(wire.PollQuery, call.query, texts=True)
        return self._polled(name, member_id, query, call.waited_s)

    def _polled(
        self, name: str, member_id: str, query: wire.PollQuery, waited_s: float
    ) -> tuple[int, Any] | Later:
        group, member = self._groups.member(name, member_id)
        now = self.clock.micros()
        take = (
            partial(self._queues.poll, group, member, now)
            if group.is_queue
            else partial(streams.poll, self.log, group, member, now)
        )
        records = take(query.max)
        left_s = query.wait_ms / 1_000 - waited_s
        if not records and not group.assigned(member):
            check_some_exist(member.request.topics, self._topics.list())
        if not records and left_s > 0 and member.told == group.version:
            group.waiting.add(member_id)
            return Later(_look_in_s(group, member, now, left_s))
        group.waiting.discard(member_id)
        member.polls += 1
        member.told = group.version
        if group.is_queue:
            member.last = [wire.parse_queue_receipt(one["receipt"]) for one in records]
        return 200, {
            "records": records,
            "poll": member.polls,
            "assignment": [one.model_dump() for one in group.assigned(member)],
            "assignment_version": group.version,
        }

    def _acks(self, call: Call, name: str, member_id: str) -> tuple[int, Any]:
        request = valid(wire.AckRequest, object_of(call.body))
        known = self._groups.by_name.get(name)
        if known is not None and known.is_queue:
            return self._settle(call, name)
        group, member = self._groups.member(name, member_id)
        topics = [self._topics.get(topic) for topic in member.request.topics]
        mine = {topic.topic: str(topic.topic_id) for topic in topics}
        return 200, streams.ack(self.log, group, member, request, mine)


def _look_in_s(group: Group, member: ModelMember, now: int, left_s: float) -> float:
    due = next_due(group, member) if group.is_queue else None
    return left_s if due is None else max(0.001, min(left_s, (due - now) / 1e6))
