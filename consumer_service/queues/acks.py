"""Acks, nacks and extensions of queue groups: judged, made durable, then answered.

A receipt carries all it needs: it is judged by the node that has the partition, whoever sends it.
A 200 means that the fact is durable and that the lease was still trusted after that; so a taker,
which reads after it has fenced, knows of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from random import Random

from consumer_service.ownership.journal import Entry, Journal, wait_committed
from consumer_service.ownership.owned_partition import OwnedPartition, OwnedPartitions
from consumer_service.ownership.takeover import fact_of
from consumer_service.queues.due_timer import DueTimer
from consumer_service.queues.waiters import Waiters
from lakequeue.clock import wall_micros
from lakequeue.errors import (
    CoordinationUnavailable,
    LakequeueError,
    NotReady,
)
from lakequeue.records import Partition, TopicId
from lakequeue.steps import Step, reach
from lakequeue.wire import (
    AckRequest,
    SettleAnswer,
    Settled,
    group_checksum,
)
from queue_rules.queues.attempts import Attempt, Move
from queue_rules.queues.receipt_actions import (
    Gone,
    ReceiptAction,
    all_gone,
    receipt_actions_of,
    refused_of,
    superseded,
)
from queue_rules.queues.record_facts import record_facts
from queue_tables.groups.facts import Key, Kind

NodeOf = Callable[[Key], str | None]
"""Base URL of the node that has a partition; None while nobody has it."""


@dataclass(slots=True)
class _Change:
    """What happens to one partition, on its way into the journal."""

    owned: OwnedPartition
    epoch: int
    begun: list[tuple[ReceiptAction, Attempt, Move]] = field(default_factory=list)
    entry: Entry | None = None
    future: Future[object] | None = None


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

    def settle(self, group: str, request: AckRequest, topics: Mapping[str, str]) -> SettleAnswer:
        """Do what is asked; `topics` maps topic ids to names, for the answer.

        Raises `AttemptSuperseded` with `settled` and `refused` when any receipt is not good;
        `CoordinationUnavailable` or `StorageUnavailable` with `stored` "unknown".
        """
        answer = SettleAnswer()
        by_key: dict[Key, list[ReceiptAction]] = {}
        for action in receipt_actions_of(request):
            receipt = action.receipt
            if receipt.group != group_checksum(group):
                answer.refused.append(refused_of(action, topics, "other_group"))
                continue
            key = Key(group, TopicId(receipt.topic_id), Partition(receipt.partition))
            by_key.setdefault(key, []).append(action)
        changes: list[_Change] = []
        try:
            for key, some in by_key.items():
                change = self._begin(key, some, answer, topics)
                if change.future is not None:
                    changes.append(change)
            self._wait(changes)
        except LakequeueError as error:
            if changes and len(by_key) > 1:
                # One partition's error says nothing of the others' facts.
                error.stored = "unknown"
            raise
        for change in changes:
            self._answer(change, answer, topics)
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
    ) -> _Change:
        owned = self._owned_partitions.get(key)
        change = (
            _Change(owned, owned.epoch)
            if owned is not None
            else _Change(OwnedPartition(key, "", ""), 0)
        )
        if owned is None:
            self._elsewhere(key, actions, answer, topics)
            return change
        with owned.lock:
            if owned.queue is None or not owned.accepts_acks:
                self._elsewhere(key, actions, answer, topics)
                return change
            now = wall_micros()
            base = fact_of(Kind.TAKEN, owned, owned.generation, None, now)
            try:
                for action in actions:
                    self._begin_one(owned, action, now, change, answer, topics)
                if not change.begun:
                    return change
                facts = record_facts(base, [move for _, _, move in change.begun])
                change.entry, change.future = self._journal.submit(facts)
            except BaseException:
                for _, one, _ in change.begun:
                    owned.queue.cancel(one, now)
                raise
            owned.pending += 1
        change.future.add_done_callback(partial(self._finish, change))
        return change

    def _begin_one(
        self,
        owned: OwnedPartition,
        action: ReceiptAction,
        now: int,
        change: _Change,
        answer: SettleAnswer,
        topics: Mapping[str, str],
    ) -> None:
        queue, receipt = owned.queue, action.receipt
        if queue is None:
            return
        if receipt.generation != owned.generation:
            answer.refused.append(refused_of(action, topics, "superseded"))
            return
        one = queue.begin(receipt.offset, receipt.attempt, now)
        if isinstance(one, Attempt):
            if action.does == "ack":
                move = queue.ack(one)
            elif action.does == "nack":
                move = queue.nack(one, now, action.ms, self._random)
            else:
                move = queue.extend(one, now, action.ms or 0)
            change.begun.append((action, one, move))
        elif action.does == "ack" and queue.was_acked(receipt.offset, receipt.attempt):
            answer.settled.append(Settled(receipt=action.text))  # a repeat
        elif one.why == "busy":
            raise NotReady(
                f"receipt {action.text} is being settled by another request",
                hint="send it again",
                stored="unknown",
                retry_after_s=0.2,
            )
        else:
            answer.refused.append(refused_of(action, topics, one.why, one))

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

    def _finish(self, change: _Change, future: Future[object]) -> None:
        """In the committer's thread: the facts stand, or do not."""
        owned, entry = change.owned, change.entry
        durable = future.exception() is None
        dying = False
        with owned.settled:
            owned.pending -= 1
            if entry is not None:
                owned.superseded_by = entry.refused.get(owned.key, owned.superseded_by)
                durable &= owned.key not in entry.refused
            if owned.queue is not None and owned.epoch == change.epoch:
                now = wall_micros()
                for action, one, move in change.begun:
                    if not durable:
                        owned.queue.cancel(one, now)
                    elif action.does == "ack":
                        owned.queue.finish_ack(one)
                    elif action.does == "nack":
                        owned.queue.finish_nack(one, move)
                        one.written = True
                        dying |= move.kind is Kind.DYING
                        self._timer.expect(move.until)
                    else:
                        owned.queue.finish_extend(one, move)
                        # Its consumer was thought to be gone, and is not: no next owner hears so.
                        owned.unflushed = [m for m in owned.unflushed if m.offset != one.offset]
                        self._timer.expect(move.until)
                # Who has settled something may have his share of what is there.
                self._waiters.news(owned.key.group)
            owned.settled.notify_all()
        if dying:
            self._on_dying()

    def _wait(self, changes: list[_Change]) -> None:
        for change in changes:
            if change.future is None:
                continue
            wait_committed(change.future, "it may be stored or not; send it again")
            # It holds its callback, and that the change: a circle, which would stay for long.
            change.future = None
        reach(Step.QUEUE_SETTLED)
        ours = [c for c in changes if c.entry is not None and c.owned.key not in c.entry.refused]
        if not all(change.owned.trusted() for change in ours):
            raise CoordinationUnavailable(
                "the lease could not be confirmed after the commit",
                hint="it may be stored or not; send it again once polls work again",
                stored="unknown",
                retry_after_s=1.0,
            )

    def _answer(self, change: _Change, answer: SettleAnswer, topics: Mapping[str, str]) -> None:
        if change.entry is not None and change.owned.key in change.entry.refused:
            self._elsewhere(change.owned.key, [w for w, _, _ in change.begun], answer, topics)
            return
        for action, _, move in change.begun:
            settled = Settled(receipt=action.text)
            if action.does == "extend":
                settled.deadline = move.until
            elif move.kind is Kind.PARKED:
                settled.due = move.until
            answer.settled.append(settled)
