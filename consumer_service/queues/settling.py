"""What follows a commit of queue facts, and what becomes of records that cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from consumer_service.ownership.journal import Journal
from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.ownership.settlement import Settlement
from consumer_service.polls.poll_batch import PartitionBatch
from lakequeue.clock import wall_micros
from lakequeue.errors import LakequeueError
from queue_rules.queues.attempts import Attempt, Move
from queue_tables.groups.facts import Kind


def settle(batch: PartitionBatch, once: bool, owned: OwnedPartition, stands: bool) -> None:
    """In the committer's thread: the facts stand, or do not."""
    if owned.queue is None:
        return
    if not stands:
        for one in batch.deliver if once else ():
            owned.queue.cancel(one, 0)
        owned.queue.never_left(batch.deliver)
        owned.unflushed += owed_of(batch)
    elif once:
        for one in batch.deliver:
            owned.queue.finish_ack(one)
    for move in batch.moves:
        if move.kind is Kind.DYING and move.offset in owned.queue.dying:
            owned.queue.dying[move.offset].written = stands


def owed_of(batch: PartitionBatch) -> list[Move]:
    """What the tables must hear all the same: nobody asks for it again, as a consumer does."""
    return [move for move in batch.moves if move.kind is not Kind.DELIVERED]


def condemn(owned: OwnedPartition, unread: Sequence[Attempt]) -> None:
    """They go to the dead letters."""
    now = wall_micros()
    with owned.lock:
        for one in unread:
            if owned.queue is not None:
                owned.queue.condemn(one, now)


def pass_unread(owned: OwnedPartition, unread: Sequence[Attempt], journal: Journal) -> None:
    """They are settled. Nobody waits until that is durable: whoever takes the partition over before
    it is reads them again, and passes them."""
    batch = PartitionBatch(owned, owned.epoch)
    with Settlement(journal, [owned]) as settlement:
        for one in unread:
            begun = None if owned.queue is None else owned.queue.begin(one.offset, one.attempt, 0)
            if owned.queue is not None and isinstance(begun, Attempt):
                batch.moves.append(owned.queue.ack(begun))
                owned.queue.finish_ack(begun)
        if not batch.moves:
            return
        try:
            settlement.submit_moves(owned, batch.moves, partial(settle, batch, False))
        except LakequeueError:
            owned.unflushed += batch.moves
