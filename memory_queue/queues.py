"""Polls, receipts, dead letters of queue groups. The state of a partition is the services' own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from random import Random
from typing import Any

import orjson

from lakequeue.clock import Micros
from lakequeue.errors import Rejected
from lakequeue.records import Partition, TopicId
from lakequeue.wire import (
    MAX_DEDUP_WINDOW_MS,
    AckRequest,
    ProduceQuery,
    QueueReceipt,
    SettleAnswer,
    Settled,
    default_dead_letters,
    group_checksum,
    place_of,
    record_to_json,
)
from lakequeue.wire.limits import DEFAULT_MAX_IN_FLIGHT
from memory_queue.groups import Group, ModelMember, ModelPartition
from memory_queue.log import Log
from memory_queue.topics import Topics
from queue_rules.predicates.expressions import Condition
from queue_rules.predicates.of_group import predicate_of
from queue_rules.predicates.single import matches
from queue_rules.produce.json_body import json_request_of
from queue_rules.queues.attempts import Attempt, Taken, move_of
from queue_rules.queues.dead_records import dead_letter_of
from queue_rules.queues.fair_share import fair_share
from queue_rules.queues.partition import QueuePartition
from queue_rules.queues.receipt_actions import (
    ReceiptAction,
    all_gone,
    receipt_actions_of,
    refused_of,
    superseded,
)
from queue_rules.queues.skip import fetch_matching
from queue_tables.groups.facts import Key, Kind
from queue_tables.schema.topic_rules import Topic

_LOOKED_AT = 64
"""New records that are looked at together."""


class Queues:
    """The caller holds the service's lock."""

    def __init__(self, topics: Topics, log: Log) -> None:
        self._topics = topics
        self._log = log
        self._random = Random()

    # -- polls ------------------------------------------------------------------------------------

    def poll(
        self, group: Group, member: ModelMember, now: Micros, most: int, keep_ms: int | None = None
    ) -> list[dict[str, Any]]:
        """Up to `most` records: those that are due again in any partition first, then new ones.

        They are kept for `keep_ms`, or as long as the group says.
        """
        mine = list(_queues(group.in_turn(member)))
        room = self._room(group, member, mine, now, most)
        records: list[dict[str, Any]] = []
        take_new = partial(self._take_new, predicate_of(group.config.options))
        for look in (self._take_again, take_new):
            for owned, queue in mine:
                while len(records) < room:
                    taken = look(owned, queue, now, member.member_id, room - len(records))
                    if not taken.moves:
                        break
                    if keep_ms is not None:
                        _keep_until(queue, taken.deliver, now + keep_ms * 1_000)
                    records += self._delivered(group, owned, taken.deliver)
                self._send_dead(group, owned, queue, now)
        return records

    @staticmethod
    def _take_again(
        _held: ModelPartition, queue: QueuePartition, now: Micros, member: str, most: int
    ) -> Taken:
        return queue.take_again(now, member, most)

    def _take_new(
        self,
        predicate: Condition | None,
        owned: ModelPartition,
        queue: QueuePartition,
        now: Micros,
        member: str,
        most: int,
    ) -> Taken:
        rows = self._log.of(*owned.key[1:])
        keys = queue.policy.key_order
        taken = Taken()
        while not taken.moves and queue.scan < len(rows) and queue.held_back is None:
            some = rows[queue.scan : queue.scan + _LOOKED_AT]
            wanted = [row for row in some if predicate is None or matches(predicate, row.record)]
            following = queue.scan + len(some)
            new = [row.new(keys=keys) for row in wanted]
            taken = fetch_matching(queue, now, member, most, new, following)
        return taken

    def _room(
        self,
        group: Group,
        member: ModelMember,
        mine: Iterable[tuple[ModelPartition, QueuePartition]],
        now: Micros,
        most: int,
    ) -> int:
        """How many records this poll may take: its own bound, and a fair share."""
        limit = member.request.max_in_flight or DEFAULT_MAX_IN_FLIGHT
        asking = group.waiting | {member.member_id}
        available, has, others, late = 0, 0, 0, False
        for owned, queue in mine:
            has += queue.held_by(member.member_id)
            others += sum(map(queue.held_by, asking - {member.member_id}))
            due = queue.next_due()
            available += queue.returned
            is_due = due is not None and due <= now
            late |= is_due
            available += queue.delayed if is_due else 0
            available += max(0, self._log.end(*owned.key[1:]) - queue.scan)
        share = fair_share(available, has, others, len(asking), due=late)
        return min(most, limit - has, share)

    def _delivered(
        self, group: Group, owned: ModelPartition, attempts: Iterable[Attempt]
    ) -> Iterator[dict[str, Any]]:
        rows, checksum = self._log.of(*owned.key[1:]), group_checksum(group.name)
        for one in attempts:
            place = (*owned.key[1:], one.offset, owned.generation, one.attempt, checksum)
            record = record_to_json(rows[one.offset].record, str(QueueReceipt(*place)), one.attempt)
            yield record | {"deadline": one.deadline}

    # -- receipts ---------------------------------------------------------------------------------

    def settle(
        self, group: Group, request: AckRequest, now: Micros, names: Mapping[str, str]
    ) -> SettleAnswer:
        """Do what is asked; `names` maps topic ids to names.

        Raises `AttemptSuperseded` with `settled` and `refused` when any receipt is not good.
        """
        answer = SettleAnswer()
        for action in receipt_actions_of(request):
            self._settle_one(group, action, now, names, answer)
        for owned, queue in _queues(group.owned.values()):
            self._send_dead(group, owned, queue, now)
        if not answer.settled and (gone := all_gone(group.name, answer.refused)) is not None:
            raise gone
        if answer.refused:
            raise superseded(answer)
        return answer

    def _settle_one(
        self,
        group: Group,
        action: ReceiptAction,
        now: Micros,
        names: Mapping[str, str],
        answer: SettleAnswer,
    ) -> None:
        receipt = action.receipt
        if receipt.group != group_checksum(group.name):
            answer.refused.append(refused_of(action, names, "other_group"))
            return
        key = Key(group.name, TopicId(receipt.topic_id), Partition(receipt.partition))
        owned = group.owned.get(key)
        if self._topics.by_id(key.topic_id) is None:
            answer.refused.append(refused_of(action, names, "topic_deleted"))
            return
        if owned is None or owned.queue is None:
            answer.refused.append(refused_of(action, names, "unknown"))
            return
        if receipt.generation != owned.generation:
            answer.refused.append(refused_of(action, names, "superseded"))
            return
        queue = owned.queue
        one = queue.begin(receipt.offset, receipt.attempt, now)
        if isinstance(one, Attempt):
            answer.settled.append(self._do(queue, action, one, now))
        elif action.does == "ack" and queue.was_acked(receipt.offset, receipt.attempt):
            answer.settled.append(Settled(receipt=action.text))  # a repeat
        else:
            why = "unknown" if one.why == "busy" else one.why
            answer.refused.append(refused_of(action, names, why, one))

    def _do(
        self, queue: QueuePartition, action: ReceiptAction, one: Attempt, now: Micros
    ) -> Settled:
        settled = Settled(receipt=action.text)
        if action.does == "ack":
            queue.finish_ack(one)
        elif action.does == "nack":
            move = queue.nack(one, now, action.ms, self._random)
            queue.finish_nack(one, move)
            settled.due = move.until if move.kind is Kind.PARKED else None
        else:
            move = queue.extend(one, now, action.ms or 0)
            queue.finish_extend(one, move)
            settled.deadline = move.until
        return settled

    # -- dead letters -----------------------------------------------------------------------------

    def _send_dead(
        self, group: Group, owned: ModelPartition, queue: QueuePartition, now: Micros
    ) -> None:
        """Send what is dying to its dead-letter topic. What is refused there stays dying."""
        for one in list(queue.dying.values()):
            try:
                queue.finish_dead(one, self._send(group, owned, one))
            except Rejected as error:
                owned.refused_letters.refused([one.offset], str(error), now, 0.0)
        owned.refused_letters.keep_only(queue.dying)

    def _send(self, group: Group, owned: ModelPartition, one: Attempt) -> str:
        """Where the dead letter stands now."""
        source = self._topics.by_id(owned.key.topic_id)
        topic = self._dead_letters(group, owned, source)
        record = self._log.of(*owned.key[1:])[one.offset].record
        plain = record_to_json(record, "")
        letter = dead_letter_of(plain, owned.key.topic_id, group.name, one, owned.generation)
        body = {"records": [letter]}
        limits = self._log.limits_of(topic)
        request = json_request_of(orjson.dumps(body), topic.topic_id, limits)
        sent = self._log.produce([request], [topic], [0], ProduceQuery(wait="ordered"))
        (record,) = sent["records"]
        return place_of(topic.topic, record["partition"], record["offset"])

    def _dead_letters(self, group: Group, owned: ModelPartition, source: Topic | None) -> Topic:
        name = group.config.options.get("dead_letter_topic")
        if name is None:
            name = default_dead_letters(owned.topic) if source is None else source.dead_letters
        known = self._topics.by_name.get(name)
        if known is not None:
            return known
        config: dict[str, Any] = {"dedup_window_ms": MAX_DEDUP_WINDOW_MS}
        if source is not None:
            config["partitions"] = source.partitions
        return self._topics.create(name, config)[0]


def _queues(some: Iterable[ModelPartition]) -> Iterator[tuple[ModelPartition, QueuePartition]]:
    return ((owned, owned.queue) for owned in some if owned.queue is not None)


def _keep_until(queue: QueuePartition, delivered: Iterable[Attempt], deadline: Micros) -> None:
    for one in delivered:
        if isinstance(begun := queue.begin(one.offset, one.attempt, 0), Attempt):
            queue.finish_extend(begun, move_of(Kind.DELIVERED, begun)._replace(until=deadline))


def next_due(group: Group, member: ModelMember) -> Micros | None:
    """When something of the member's partitions becomes deliverable by time alone."""
    times = [queue.next_due() for _, queue in _queues(group.in_turn(member))]
    return min((time for time in times if time is not None), default=None)
