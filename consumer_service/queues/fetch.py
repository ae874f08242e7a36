"""Which records of a partition a poll takes: what comes again, then what is new.

Their facts are not durable yet: `queues/delivery.py` commits them and hands the records out.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.polls.matching import FIND_S, find_matching
from consumer_service.polls.poll_batch import PartitionBatch, picked
from consumer_service.reading.encode import new_records_of
from consumer_service.reading.runs import prefix_within
from consumer_service.reading.tailer import Tailer
from consumer_service.reading.undecodable import OnUndecodable
from lakequeue.clock import boot_seconds
from lakequeue.errors import OffsetOutOfRange
from queue_rules.predicates.expressions import Condition
from queue_rules.predicates.of_group import predicate_in
from queue_rules.queues.attempts import MOST_MOVES
from queue_rules.queues.partition import QueuePartition
from queue_rules.queues.skip import fetch_matching, settle_gone, skip
from queue_tables.groups.facts import Kind

READ_AHEAD_ROWS = 20_000
READ_AHEAD_BYTES = 8 << 20
_AGAIN_AT_ONCE = 16
"""Records that were seen before are read from anywhere: in steps, to stay near the byte bound."""


def fetch_again(
    tailer: Tailer,
    batch: PartitionBatch,
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
        with batch.owned.lock:
            taken = queue.take_again(now, name, min(left, _AGAIN_AT_ONCE))
        where = batch.owned.where
        try:
            rows = [tailer.read_one(where, one.offset) for one in taken.deliver]
        except BaseException:
            # Their deliveries were never committed; what exists of them comes again.
            with batch.owned.lock:
                queue.never_left(taken.deliver)
            batch.moves += [m for m in taken.moves if m.kind is not Kind.DELIVERED]
            raise
        there = [row for row in rows if row is not None]
        if len(there) < len(rows):
            gone = [o for o, row in zip(taken.deliver, rows, strict=True) if row is None]
            with batch.owned.lock:
                settle_gone(queue, taken, gone)
        if there:
            batch.add(taken, pa.concat_tables(there))
        else:
            batch.moves += taken.moves
        if len(taken.deliver) < _AGAIN_AT_ONCE and len(taken.moves) < MOST_MOVES:
            return


def fetch_new(
    tailer: Tailer,
    batch: PartitionBatch,
    queue: QueuePartition,
    now: int,
    name: str,
    most: int,
    max_bytes: int,
    on_undecodable: OnUndecodable,
) -> None:
    """Records from the scan position on: those that may go out, until there are enough.

    Of a group with a predicate for about `LOOK_S` at a time: others want to be served too.
    """
    owned, step = batch.owned, max(64, most)
    predicate = predicate_in(owned.options)
    until = boot_seconds() + FIND_S
    while len(batch.deliver) < most and batch.bytes < max_bytes and queue.held_back is None:
        if queue.scan >= tailer.end(owned.where):
            return
        if len(batch.moves) >= MOST_MOVES or (predicate and boot_seconds() > until):
            batch.more = True
            return
        ahead, following = _ahead(tailer, owned, queue.scan, predicate, on_undecodable)
        if ahead is None:
            if following == queue.scan:
                return
            with owned.lock:
                batch.moves += skip(queue, following)
            continue
        rows = prefix_within(ahead, step, max_bytes - batch.bytes)
        if rows.num_rows < ahead.num_rows:
            following = ahead["offset"][rows.num_rows].as_py()
        records = new_records_of(rows, keys=queue.policy.key_order)
        left = most - len(batch.deliver)
        with owned.lock:
            if rows.num_rows == following - queue.scan:
                taken = queue.take_new(now, name, left, records)
            else:
                taken = fetch_matching(queue, now, name, left, records, following)
        offsets = rows["offset"].to_numpy()
        looked_at = int(np.searchsorted(offsets, queue.scan))
        owned.rows = ahead.slice(looked_at) if looked_at < ahead.num_rows else None
        places = np.searchsorted(offsets, [one.offset for one in taken.deliver])
        batch.add(taken, picked(rows, places.tolist()))
        step = min(step * 2, 4_096)


def _ahead(
    tailer: Tailer,
    owned: OwnedPartition,
    scan: int,
    predicate: Condition | None,
    on_undecodable: OnUndecodable,
) -> tuple[pa.Table | None, int]:
    """The group's next rows from `scan` on, and where to go on behind them; None: none up to there.

    Read ahead already, in memory, or from the files.
    """
    rows = owned.read_ahead()
    if rows is None or rows["offset"][0].as_py() != scan:
        if predicate is not None:
            return find_matching(tailer, owned, scan, predicate, on_undecodable)
        end = tailer.end(owned.where)
        rows = tailer.read(owned.where, scan, READ_AHEAD_ROWS, READ_AHEAD_BYTES)
        if rows.num_rows == 0:
            return None, end  # a gap up to the end
    return rows, rows["offset"][rows.num_rows - 1].as_py() + 1


def skip_expired(batch: PartitionBatch, queue: QueuePartition, expired: OffsetOutOfRange) -> None:
    """Retention has removed what we were about to read."""
    with batch.owned.lock:
        move = queue.skip_to(int(expired.extra["first_offset"]))
    batch.owned.rows = None
    if move is not None:
        batch.moves.append(move)
    batch.more = True
