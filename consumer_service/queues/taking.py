"""Which records of a partition a poll takes: what comes again, then what is new.

Their facts are not durable yet: `queues/delivery.py` commits them and hands the records out.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from consumer_service.ownership.held import Held
from consumer_service.polls.batches import Batch, picked
from consumer_service.polls.matching import LOOK_S, look
from consumer_service.reading.encode import new_records_of
from consumer_service.reading.segments import prefix_within
from consumer_service.reading.tailer import Tailer
from lakequeue.clock import boot_seconds
from lakequeue.errors import OffsetOutOfRange
from queue_rules.predicates.of_group import predicate_in
from queue_rules.predicates.terms import Condition
from queue_rules.queues.attempts import MOST_MOVES
from queue_rules.queues.partition import QueuePartition
from queue_rules.queues.passing import pass_over, settle_gone, take_among
from queue_tables.groups.facts import Kind

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
            rows = [tailer.read_one(where, one.offset) for one in taken.deliver]
        except BaseException:
            # Their deliveries were never committed; what exists of them comes again.
            with batch.held.lock:
                queue.never_left(taken.deliver)
            batch.moves += [m for m in taken.moves if m.kind is not Kind.DELIVERED]
            raise
        there = [row for row in rows if row is not None]
        if len(there) < len(rows):
            gone = [o for o, row in zip(taken.deliver, rows, strict=True) if row is None]
            with batch.held.lock:
                settle_gone(queue, taken, gone)
        if there:
            batch.add(taken, pa.concat_tables(there))
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
    """Records from the scan position on: those that may go out, until there are enough.

    Of a group with a predicate for about `LOOK_S` at a time: others want to be served too.
    """
    held, step = batch.held, max(64, most)
    predicate = predicate_in(held.options)
    until = boot_seconds() + LOOK_S
    while len(batch.deliver) < most and batch.bytes < max_bytes and queue.held_back is None:
        if queue.scan >= tailer.end(held.where):
            return
        if len(batch.moves) >= MOST_MOVES or (predicate and boot_seconds() > until):
            batch.more = True
            return
        ahead, following = _ahead(tailer, held, queue.scan, predicate)
        if ahead is None:
            if following == queue.scan:
                return
            with held.lock:
                batch.moves += pass_over(queue, following)
            continue
        rows = prefix_within(ahead, step, max_bytes - batch.bytes)
        if rows.num_rows < ahead.num_rows:
            following = ahead["offset"][rows.num_rows].as_py()
        records = new_records_of(rows, keys=queue.policy.key_order)
        left = most - len(batch.deliver)
        with held.lock:
            if rows.num_rows == following - queue.scan:
                taken = queue.take_new(now, name, left, records)
            else:
                taken = take_among(queue, now, name, left, records, following)
        offsets = rows["offset"].to_numpy()
        looked_at = int(np.searchsorted(offsets, queue.scan))
        held.rows = ahead.slice(looked_at) if looked_at < ahead.num_rows else None
        places = np.searchsorted(offsets, [one.offset for one in taken.deliver])
        batch.add(taken, picked(rows, places.tolist()))
        step = min(step * 2, 4_096)


def _ahead(
    tailer: Tailer, held: Held, scan: int, predicate: Condition | None
) -> tuple[pa.Table | None, int]:
    """The group's next rows from `scan` on, and where to go on behind them; None: none up to there.

    Read ahead already, in memory, or from the files.
    """
    rows = held.rows
    if rows is None or rows["offset"][0].as_py() != scan:
        if predicate is not None:
            return look(tailer, held, scan, predicate)
        end = tailer.end(held.where)
        rows = tailer.read(held.where, scan, READ_AHEAD_ROWS, READ_AHEAD_BYTES)
        if rows.num_rows == 0:
            return None, end  # a gap up to the end
    return rows, rows["offset"][rows.num_rows - 1].as_py() + 1


def skip_expired(batch: Batch, queue: QueuePartition, expired: OffsetOutOfRange) -> None:
    """Retention has removed what we were about to read."""
    with batch.held.lock:
        move = queue.skip_to(int(expired.extra["first_offset"]))
    batch.held.rows = None
    if move is not None:
        batch.moves.append(move)
    batch.more = True
