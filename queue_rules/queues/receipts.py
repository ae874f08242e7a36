"""What becomes of a receipt at the partition it is of: begun, made durable, finished. Pure.

The services commit facts in between, the memory queue does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random

from lakequeue.errors import NotReady
from lakequeue.wire import SettleAnswer, Settled
from queue_rules.queues.attempts import Attempt, Move, move_of
from queue_rules.queues.partition import QueuePartition
from queue_rules.queues.receipt_actions import ReceiptAction, refused_of
from queue_tables.groups.facts import Kind


@dataclass(slots=True)
class Begun:
    """A receipt that is good: nothing else is done with its attempt until it is finished."""

    action: ReceiptAction
    attempt: Attempt
    move: Move
    """The fact to make durable."""

    def finish(self, queue: QueuePartition, now: int, *, stands: bool) -> None:
        """The fact is durable, or never will be."""
        if not stands:
            queue.cancel(self.attempt, now)
        elif self.action.does == "ack":
            queue.finish_ack(self.attempt)
        elif self.action.does == "nack":
            queue.finish_nack(self.attempt, self.move)
        else:
            queue.finish_extend(self.attempt, self.move)

    @property
    def settled(self) -> Settled:
        """The answer, once it is finished."""
        settled = Settled(receipt=self.action.text)
        if self.action.does == "extend":
            settled.deadline = self.move.until
        elif self.move.kind is Kind.PARKED:
            settled.due = self.move.until
        return settled


def begin(
    queue: QueuePartition,
    generation: int,
    action: ReceiptAction,
    now: int,
    random: Random,
    topics: Mapping[str, str],
    answer: SettleAnswer,
) -> Begun | None:
    """Begin what a receipt asks for; None: the answer says already what became of it.

    `generation` is that of the partition, `topics` maps topic ids to names. Raises `NotReady` while
    another request is at it.
    """
    one = take_hold(queue, generation, action, now, topics, answer)
    if one is None:
        return None
    if action.does == "ack":
        return Begun(action, one, queue.ack(one))
    if action.does == "nack":
        one.nack_reason = action.reason
        move = queue.nack(one, now, action.ms, random, unopened=action.unopened)
        return Begun(action, one, move)
    shorten = action.may_shorten
    return Begun(action, one, queue.extend(one, now, action.ms or 0, may_shorten=shorten))


def take_hold(
    queue: QueuePartition,
    generation: int,
    action: ReceiptAction,
    now: int,
    topics: Mapping[str, str],
    answer: SettleAnswer,
) -> Attempt | None:
    """The attempt of a receipt, of which nothing is committed yet; else as `begin`."""
    receipt = action.receipt
    if receipt.generation != generation:
        answer.refused.append(refused_of(action, topics, "superseded"))
        return None
    # At the time 0 no deadline has passed.
    one = queue.begin(receipt.offset, receipt.attempt, 0 if action.late else now)
    if isinstance(one, Attempt):
        return one
    if action.does == "ack" and queue.was_acked(receipt.offset, receipt.attempt):
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
    return None


def keep_until(queue: QueuePartition, delivered: Iterable[Attempt], deadline: int) -> None:
    """What was just taken is kept until then (µs), and not for as long as the policy says."""
    for one in delivered:
        if isinstance(begun := queue.begin(one.offset, one.attempt, 0), Attempt):
            queue.finish_extend(begun, move_of(Kind.DELIVERED, begun)._replace(until=deadline))
