"""What follows a commit of queue facts, and what becomes of records that cannot be read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from consumer_service.members import Member
from consumer_service.ownership.journal import Journal
from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.ownership.settlement import Settlement
from consumer_service.polls.poll_batch import PartitionBatch
from lakequeue.clock import wall_micros
from lakequeue.errors import LakequeueError
from queue_rules.queues.attempts import Attempt, Move
from queue_tables.groups.facts import Kind


def may_leave(batch: PartitionBatch, member: Member) -> bool:
    """Whether it may still be delivered. The partition's lock is held.

    Whoever leaves has had his records returned under this lock: none may follow.
    """
    owned = batch.owned
    stays = owned.delivers and not owned.paused and member.active
    return stays and batch.stands and owned.trusted()


def hold(batch: PartitionBatch) -> None:
    """At most once: they may be done by now. If their consumer goes meanwhile, no other gets them.

    The partition's lock is held.
    """
    for one in batch.deliver:
        if batch.owned.queue is not None:
            batch.owned.queue.begin(one.offset, one.attempt, 0)


def next_due(batch: PartitionBatch) -> int | None:
    """When the first of its records is due, or past its deadline (µs)."""
    rests = {Kind.DELIVERED, Kind.PARKED}
    return min((move.until for move in batch.moves if move.kind in rests), default=None)


def settle(batch: PartitionBatch, once: bool, owned: OwnedPartition, stands: bool) -> None:
    """In the committer's thread: the facts stand, or do not."""
    if owned.queue is None or not batch.stands:
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


def give_back(batch: PartitionBatch, *, unsaid: bool = False) -> None:
    """No answer has these records; `unsaid`: and its facts are not on their way."""
    owned = batch.owned
    with owned.lock:
        if batch.stands and owned.queue is not None:
            owned.queue.never_left(batch.deliver)
            if unsaid:
                owned.unflushed += owed_of(batch)


def done_of(moves: Iterable[Move]) -> list[Move]:
    """At most once: what is delivered is done."""
    return [m._replace(kind=Kind.ACKED) if m.kind is Kind.DELIVERED else m for m in moves]


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
    with Settlement(journal, [owned]) as settlement:
        batch = PartitionBatch(owned, owned.epoch, owned.queue)
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
