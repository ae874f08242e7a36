"""Acks, nacks and extensions of queue groups: judged, made durable, then answered.

A receipt carries all it needs: it is judged by the node that has the partition, whoever sends it.
A 200 means that the fact is durable and that the lease was still trusted after that; so a taker,
which reads after it has fenced, knows of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random

from consumer_service.ownership.journal import Journal
from consumer_service.ownership.owned_partition import OwnedPartition, OwnedPartitions
from consumer_service.ownership.settlement import Settlement, check_trusted
from consumer_service.queues.due_timer import DueTimer
from consumer_service.queues.waiters import Waiters
from lakequeue.clock import wall_micros
from lakequeue.errors import LakequeueError, NotReady
from lakequeue.records import Partition, TopicId
from lakequeue.steps import Step, reach
from lakequeue.wire import (
    AckRequest,
    SettleAnswer,
    group_checksum,
)
from queue_rules.queues.receipt_actions import (
    Gone,
    ReceiptAction,
    all_gone,
    receipt_actions_of,
    refused_of,
    superseded,
)
from queue_rules.queues.receipts import Begun, begin
from queue_tables.groups.facts import Key, Kind
from serving.front.parking import BLOCKS, Steps

NodeOf = Callable[[Key], str | None]
"""Base URL of the node that has a partition; None while nobody has it."""


@dataclass(slots=True)
class _Change:
    """What happens to one partition, on its way into the journal."""

    owned: OwnedPartition
    settlement: Settlement
    begun: list[Begun] = field(default_factory=list)


class QueueAcks:
    """Thread-safe."""

    def __init__(
        self,
        journal: Journal,
        owned_partitions: OwnedPartitions,
        waiters: Waiters,
        timer: DueTimer,
        node_of: NodeOf,
        gone: Callable[[Key], Gone | None],
        on_dying: Callable[[], None],
    ) -> None:
        self._journal = journal
        self._owned_partitions = owned_partitions
        self._waiters = waiters
        self._timer = timer
        self._node_of = node_of
        self._gone = gone
        self._on_dying = on_dying
        self._random = Random()

    def settle(
        self, group: str, request: AckRequest, topics: Mapping[str, str]
    ) -> Steps[SettleAnswer]:
        """Do what is asked; `topics` maps topic ids to names, for what is refused.

        Raises `AttemptSuperseded` with `settled` and `refused` when any receipt is not good;
        `CoordinationUnavailable` or `StorageUnavailable` with `stored` "unknown".
        """
        answer = SettleAnswer()
        by_key = _by_key(group, request, answer, topics)
        changes: list[_Change] = []
        try:
            for key, some in by_key.items():
                change = self._begin(key, some, answer, topics)
                if change is None:
                    yield BLOCKS
                    self._elsewhere(key, some, answer, topics)
                elif change.settlement.submitted:
                    changes.append(change)
            yield from self._settled(changes)
        except LakequeueError as error:
            if changes and len(by_key) > 1:
                # One partition's error says nothing of the others' facts.
                error.stored = "unknown"
            raise
        for change in changes:
            if change.settlement.newer_epoch(change.owned) is None:
                answer.settled += [one.settled for one in change.begun]
                continue
            yield BLOCKS
            actions = [one.action for one in change.begun]
            self._elsewhere(change.owned.key, actions, answer, topics)
        if not answer.settled and (gone := all_gone(group, answer.refused)) is not None:
            raise gone
        if answer.refused:
            raise superseded(answer)
        return answer

    def _begin(
        self,
        key: Key,
        actions: list[ReceiptAction],
        answer: SettleAnswer,
        topics: Mapping[str, str],
    ) -> _Change | None:
        """None: the partition is not here, or not any more."""
        owned = self._owned_partitions.get(key)
        if owned is None:
            return None
        change = _Change(owned, Settlement(self._journal, [owned]))
        with change.settlement:
            if owned.queue is None or not owned.accepts_acks:
                return None
            now = wall_micros()
            try:
                for action in actions:
                    one = begin(
                        owned.queue, owned.generation, action, now, self._random, topics, answer
                    )
                    if one is not None:
                        change.begun.append(one)
                if not change.begun:
                    return change
                moves = [one.move for one in change.begun]
                change.settlement.submit_moves(owned, moves, partial(self._finish, change))
            except BaseException:
                for begun in change.begun:
                    begun.finish(owned.queue, now, stands=False)
                raise
        return change

    def _elsewhere(
        self,
        key: Key,
        actions: list[ReceiptAction],
        answer: SettleAnswer,
        topics: Mapping[str, str],
    ) -> None:
        location = self._node_of(key)
        if location is None and (gone := self._gone(key)) is not None:
            answer.refused += [refused_of(action, topics, gone) for action in actions]
            return
        if location is None:
            raise NotReady(
                f"partition {key.partition} of {topics.get(key.topic_id, key.topic_id)} has no "
                "owner now",
                hint="it is being taken over: send it again",
                stored="unknown",
                retry_after_s=0.2,
            )
        for action in actions:
            refused = refused_of(action, topics, "elsewhere")
            refused.location = location
            answer.refused.append(refused)

    def _finish(self, change: _Change, owned: OwnedPartition, stands: bool) -> None:
        """In the committer's thread: the facts stand, or do not."""
        if owned.queue is None:
            return
        now = wall_micros()
        for begun in change.begun:
            begun.finish(owned.queue, now, stands=stands)
            move = begun.move
            if not stands or begun.action.does == "ack":
                continue
            self._timer.expect(move.until)
            if begun.action.does == "nack":
                begun.attempt.written = True
                if move.kind is Kind.DYING:
                    self._on_dying()
            else:
                # Its consumer was thought to be gone, and is not: no next owner hears so.
                owned.unflushed = [m for m in owned.unflushed if m.offset != begun.attempt.offset]
        # Who has settled something may have his share of what is there.
        self._waiters.news(owned.key.group)

    @staticmethod
    def _settled(changes: list[_Change]) -> Steps[None]:
        for change in changes:
            yield from change.settlement.steps("it may be stored or not; send it again")
        reach(Step.QUEUE_SETTLED)
        check_trusted(
            (c.owned for c in changes if c.settlement.newer_epoch(c.owned) is None),
            "it may be stored or not; send it again once polls work again",
        )


def _by_key(
    group: str, request: AckRequest, answer: SettleAnswer, topics: Mapping[str, str]
) -> dict[Key, list[ReceiptAction]]:
    """What is asked, by partition; those of another group are refused."""
    by_key: dict[Key, list[ReceiptAction]] = {}
    checksum = group_checksum(group)
    for action in receipt_actions_of(request):
        receipt = action.receipt
        if receipt.group != checksum:
            answer.refused.append(refused_of(action, topics, "other_group"))
            continue
        key = Key(group, TopicId(receipt.topic_id), Partition(receipt.partition))
        by_key.setdefault(key, []).append(action)
    return by_key
