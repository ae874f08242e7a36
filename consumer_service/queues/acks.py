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
    Settled,
    group_checksum,
)
from queue_rules.queues.attempts import Attempt, acked_moves
from queue_rules.queues.partition import QueuePartition
from queue_rules.queues.receipt_actions import (
    Gone,
    ReceiptAction,
    all_gone,
    receipt_actions_of,
    refused_of,
    superseded,
)
from queue_rules.queues.receipts import Begun, begin, take_hold
from queue_tables.groups.facts import Key, Kind
from serving.front.parking import BLOCKS, Steps

NodeOf = Callable[[Key], str | None]
"""Base URL of the node that has a partition; None while nobody has it."""


@dataclass(slots=True)
class Change:
    """What happens to one partition, on its way into the journal."""

    owned: OwnedPartition
    settlement: Settlement
    acked: list[Attempt] = field(default_factory=list)
    receipts: list[str] = field(default_factory=list)
    """Of those that are acked."""
    begun: list[Begun] = field(default_factory=list)
    """What else is done."""


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
        answer = yield from self.outcome(group, request, topics, [])
        if not answer.settled and (gone := all_gone(group, answer.refused)) is not None:
            raise gone
        if answer.refused:
            raise superseded(answer)
        return answer

    def outcome(
        self,
        group: str,
        request: AckRequest,
        topics: Mapping[str, str],
        changes: list[Change],
        *,
        brief: bool = False,
    ) -> Steps[SettleAnswer]:
        """As `settle`, but what is not good is only said.

        `changes` is filled before anything is waited for. `brief`: acks that are good need no word.
        """
        answer = SettleAnswer()
        by_key = _by_key(group, request, answer, topics)
        try:
            for key, some in by_key.items():
                change = self._begin(key, some, answer, topics)
                if change is None:
                    yield BLOCKS
                    self._elsewhere(key, some, answer, topics)
                elif change.settlement.submitted:
                    changes.append(change)
            if brief:
                # Acks that were told before.
                answer.settled.clear()
            yield from self._settled(changes)
        except LakequeueError as error:
            if changes and len(by_key) > 1:
                # One partition's error says nothing of the others' facts.
                error.stored = "unknown"
            raise
        for change in changes:
            if change.settlement.newer_epoch(change.owned) is None:
                acked = () if brief else change.receipts
                answer.settled += [Settled(receipt=receipt) for receipt in acked]
                answer.settled += [one.settled for one in change.begun]
                continue
            yield BLOCKS
            self._elsewhere(change.owned.key, by_key[change.owned.key], answer, topics)
        return answer

    def _begin(
        self,
        key: Key,
        actions: list[ReceiptAction],
        answer: SettleAnswer,
        topics: Mapping[str, str],
    ) -> Change | None:
        """None: the partition is not here, or not any more."""
        owned = self._owned_partitions.get(key)
        if owned is None:
            return None
        change = Change(owned, Settlement(self._journal, [owned]))
        with change.settlement:
            if owned.queue is None or not owned.accepts_acks:
                return None
            now = wall_micros()
            try:
                self._begin_all(change, owned.queue, actions, now, topics, answer)
                if not (change.acked or change.begun):
                    return change
                moves = acked_moves(change.acked) + [one.move for one in change.begun]
                change.settlement.submit_moves(owned, moves, partial(self._finish, change))
            except BaseException:
                for one in change.acked:
                    owned.queue.cancel(one, now)
                for begun in change.begun:
                    begun.finish(owned.queue, now, stands=False)
                raise
        return change

    def _begin_all(
        self,
        change: Change,
        queue: QueuePartition,
        actions: list[ReceiptAction],
        now: int,
        topics: Mapping[str, str],
        answer: SettleAnswer,
    ) -> None:
        generation = change.owned.generation
        for action in actions:
            if action.does != "ack":
                begun = begin(queue, generation, action, now, self._random, topics, answer)
                if begun is not None:
                    change.begun.append(begun)
                continue
            one = take_hold(queue, generation, action, now, topics, answer)
            if one is not None:
                change.acked.append(one)
                change.receipts.append(action.text)

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

    def _finish(self, change: Change, owned: OwnedPartition, stands: bool) -> None:
        """In the committer's thread: the facts stand, or do not."""
        if owned.queue is None:
            return
        now = wall_micros()
        if stands:
            owned.queue.finish_acks(change.acked)
        else:
            for one in change.acked:
                owned.queue.cancel(one, now)
        for begun in change.begun:
            begun.finish(owned.queue, now, stands=stands)
            move = begun.move
            if not stands:
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
    def _settled(changes: list[Change]) -> Steps[None]:
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
    # Mostly neighbours are of one partition.
    where: tuple[str, int] | None = None
    mine: list[ReceiptAction] = []
    for action in receipt_actions_of(request):
        receipt = action.receipt
        if receipt.group != checksum:
            answer.refused.append(refused_of(action, topics, "other_group"))
            continue
        if where != (receipt.topic_id, receipt.partition):
            where = receipt.topic_id, receipt.partition
            key = Key(group, TopicId(receipt.topic_id), Partition(receipt.partition))
            mine = by_key.setdefault(key, [])
        mine.append(action)
    return by_key
