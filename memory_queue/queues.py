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
    AckRequest,
    ProduceQuery,
    QueueReceipt,
    SettleAnswer,
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
from queue_rules.queues.attempts import Attempt, Taken
from queue_rules.queues.dead_records import dead_letter_of, dead_letters_of, new_dead_letters
from queue_rules.queues.fair_share import Demand
from queue_rules.queues.partition import QueuePartition
from queue_rules.queues.receipt_actions import (
    ReceiptAction,
    all_gone,
    receipt_actions_of,
    refused_of,
    superseded,
)
from queue_rules.queues.receipts import begin, keep_until
from queue_rules.queues.skip import fetch_matching
from queue_tables.groups.facts import Key
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
        demand = Demand(group.waiting | {member.member_id}, now)
        for owned, queue in mine:
            demand.count(owned.key, queue, self._log.end(*owned.key[1:]))
        room = demand.room(
            member.member_id, member.request.max_in_flight or DEFAULT_MAX_IN_FLIGHT, most
        )
        records: list[dict[str, Any]] = []
        take_new = partial(self._take_new, predicate_of(group.config.options))
        for look in (self._take_again, take_new):
            for owned, queue in mine:
                while len(records) < room:
                    taken = look(owned, queue, now, member.member_id, room - len(records))
                    if not taken.moves:
                        break
                    if keep_ms is not None:
                        keep_until(queue, taken.deliver, now + keep_ms * 1_000)
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

    def _delivered(
        self, group: Group, owned: ModelPartition, attempts: Iterable[Attempt]
    ) -> Iterator[dict[str, Any]]:
        rows, checksum = self._log.of(*owned.key[1:]), group_checksum(group.name)
        for one in attempts:
            place = (*owned.key[1:], one.offset, owned.generation, one.attempt, checksum)
            record = record_to_json(rows[one.offset].record, str(QueueReceipt(*place)), one.attempt)
            yield record | {"deadline": one.deadline, "first_delivered_at": one.first_at}

    # -- receipts ---------------------------------------------------------------------------------

    def settle(
        self, group: Group, request: AckRequest, now: Micros, names: Mapping[str, str]
    ) -> SettleAnswer:
        """Do what is asked; `names` maps topic ids to names.

        Raises `AttemptSuperseded` with `settled` and `refused` when any receipt is not good.
        """
        answer = self.outcome(group, request, now, names)
        if not answer.settled and (gone := all_gone(group.name, answer.refused)) is not None:
            raise gone
        if answer.refused:
            raise superseded(answer)
        return answer

    def outcome(
        self, group: Group, request: AckRequest, now: Micros, names: Mapping[str, str]
    ) -> SettleAnswer:
        """As `settle`, but what is not good is only said."""
        answer = SettleAnswer()
        for action in receipt_actions_of(request):
            self._settle_one(group, action, now, names, answer)
        for owned, queue in _queues(group.owned.values()):
            self._send_dead(group, owned, queue, now)
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
        begun = begin(owned.queue, owned.generation, action, now, self._random, names, answer)
        if begun is not None:
            begun.finish(owned.queue, now, stands=True)
            answer.settled.append(begun.settled)

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
        name = dead_letters_of(group.config.options, owned.topic, source)
        known = self._topics.by_name.get(name)
        return known or self._topics.create(name, new_dead_letters(source))[0]


def _queues(some: Iterable[ModelPartition]) -> Iterator[tuple[ModelPartition, QueuePartition]]:
    return ((owned, owned.queue) for owned in some if owned.queue is not None)


def next_due(group: Group, member: ModelMember) -> Micros | None:
    """When something of the member's partitions becomes deliverable by time alone."""
    times = [queue.next_due() for _, queue in _queues(group.in_turn(member))]
    return min((time for time in times if time is not None), default=None)
