"""What follows a commit of queue facts, and what becomes of records that cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial

from consumer_service.ownership.held import Held
from consumer_service.ownership.journal import Journal
from consumer_service.ownership.takeover import fact_of
from consumer_service.polls.batches import Batch
from lakequeue.clock import wall_micros
from lakequeue.errors import LakequeueError
from queue_rules.queues.attempts import Attempt, Move
from queue_rules.queues.record_facts import record_facts
from queue_tables.groups.facts import Kind


def settle(batch: Batch, once: bool, future: Future[object]) -> None:
    """In the committer's thread: the facts stand, or do not."""
    held, entry = batch.held, batch.entry
    with held.settled:
        held.pending -= 1
        if entry is not None:
            held.superseded_by = entry.refused.get(held.key, held.superseded_by)
        if held.queue is not None and held.epoch == batch.epoch:
            if future.exception() is not None:
                for one in batch.deliver if once else ():
                    held.queue.cancel(one, 0)
                held.queue.never_left(batch.deliver)
                held.owed += owed_of(batch)
            elif once:
                for one in batch.deliver:
                    held.queue.finish_ack(one)
            for move in batch.moves:
                if move.kind is Kind.DYING and move.offset in held.queue.dying:
                    held.queue.dying[move.offset].written = future.exception() is None
        held.settled.notify_all()


def owed_of(batch: Batch) -> list[Move]:
    """What the tables must hear all the same: nobody asks for it again, as a consumer does."""
    return [move for move in batch.moves if move.kind is not Kind.DELIVERED]


def condemn(held: Held, unread: Sequence[Attempt]) -> None:
    """They go to the dead letters."""
    now = wall_micros()
    with held.lock:
        for one in unread:
            if held.queue is not None:
                held.queue.condemn(one, now)


def pass_unread(held: Held, unread: Sequence[Attempt], journal: Journal) -> None:
    """They are settled. Nobody waits until that is durable: whoever takes the partition over before
    it is reads them again, and passes them."""
    batch = Batch(held, held.epoch)
    with held.lock:
        for one in unread:
            begun = None if held.queue is None else held.queue.begin(one.offset, one.attempt, 0)
            if held.queue is not None and isinstance(begun, Attempt):
                batch.moves.append(held.queue.ack(begun))
                held.queue.finish_ack(begun)
        if not batch.moves:
            return
        base = fact_of(Kind.TAKEN, held, held.generation, None, wall_micros())
        try:
            batch.entry, future = journal.submit(record_facts(base, batch.moves))
        except LakequeueError:
            held.owed += batch.moves
            return
        held.pending += 1
    future.add_done_callback(partial(settle, batch, False))
