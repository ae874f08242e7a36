"""Which records of a partition a poll takes: what comes again, then what is new.

Their facts are not durable yet: `queues/delivery.py` commits them and hands the records out.
"""

from __future__ import annotations

import pyarrow as pa

from consumer_service.encode import new_records_of
from consumer_service.queues.attempts import MOST_MOVES
from consumer_service.queues.batches import Batch, picked
from consumer_service.queues.partition import QueuePartition
from consumer_service.segments import prefix_within
from consumer_service.tailer import Tailer
from lakequeue.errors import OffsetOutOfRange
from queue_tables.facts import Kind

READ_AHEAD_ROWS = 20_000
READ_AHEAD_BYTES = 8 << 20
_AGAIN_AT_ONCE = 16
"""Records that were seen before are read from anywhere: in steps, to stay near the byte bound."""


def take_again(
    tailer: Tailer,
    batch: Batch,
    queue: QueuePartition,
    now: int,
    name: str,
    most: int,
    max_bytes: int,
) -> None:
    """Records that have been seen before, read from wherever they are."""
    while (left := most - len(batch.deliver)) > 0 and batch.bytes < max_bytes:
        if len(batch.moves) >= MOST_MOVES:
            batch.more = True
            return
        with batch.held.lock:
            taken = queue.take_again(now, name, min(left, _AGAIN_AT_ONCE))
        where = batch.held.where
        try:
            rows = [tailer.read(where, one.offset, 1, 1) for one in taken.deliver]
        except BaseException:
            # Their deliveries were never committed; what exists of them comes again.
            with batch.held.lock:
                queue.never_left(taken.deliver)
            batch.moves += [m for m in taken.moves if m.kind is not Kind.DELIVERED]
            raise
        if rows:
            batch.add(taken, pa.concat_tables(rows))
        else:
            batch.moves += taken.moves
        if len(taken.deliver) < _AGAIN_AT_ONCE and len(taken.moves) < MOST_MOVES:
            return


def take_new(
    tailer: Tailer,
    batch: Batch,
    queue: QueuePartition,
    now: int,
    name: str,
    most: int,
    max_bytes: int,
) -> None:
    """Records from the scan position on: those that may go out, until there are enough."""
    held, step = batch.held, max(64, most)
    while len(batch.deliver) < most and batch.bytes < max_bytes and queue.held_back is None:
        if queue.scan >= tailer.end(held.where):
            return
        if len(batch.moves) >= MOST_MOVES:
            batch.more = True
            return
        ahead = held.rows
        if ahead is None or ahead["offset"][0].as_py() != queue.scan:
            ahead = tailer.read(held.where, queue.scan, READ_AHEAD_ROWS, READ_AHEAD_BYTES)
            if ahead.num_rows == 0:
                return
        rows = prefix_within(ahead, step, max_bytes - batch.bytes)
        records = new_records_of(rows, keys=queue.policy.key_order)
        first = records[0].offset
        with held.lock:
            taken = queue.take_new(now, name, most - len(batch.deliver), records)
        looked_at = queue.scan - first
        held.rows = ahead.slice(looked_at) if looked_at < ahead.num_rows else None
        batch.add(taken, picked(rows, [one.offset - first for one in taken.deliver]))
        step = min(step * 2, 4_096)


def skip_expired(batch: Batch, queue: QueuePartition, expired: OffsetOutOfRange) -> None:
    """Retention has removed what we were about to read."""
    with batch.held.lock:
        move = queue.skip_to(int(expired.extra["first_offset"]))
    batch.held.rows = None
    if move is not None:
        batch.moves.append(move)
    batch.more = True
