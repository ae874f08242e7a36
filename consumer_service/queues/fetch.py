"""Which records of a partition a poll takes: what comes again, then what is new.

Their facts are not durable yet: `queues/delivery.py` commits them and hands the records out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.polls.matching import FIND_S, find_matching
from consumer_service.polls.poll_batch import PartitionBatch
from consumer_service.reading.encode import new_records_of, numbers_of, plain_records
from consumer_service.reading.runs import READ_AHEAD_BYTES, READ_AHEAD_ROWS
from consumer_service.reading.tailer import Tailer
from consumer_service.reading.undecodable import OnUndecodable
from lakequeue.clock import boot_seconds
from lakequeue.errors import OffsetOutOfRange
from queue_rules.predicates.expressions import Condition
from queue_rules.predicates.of_group import predicate_in
from queue_rules.queues.attempts import MOST_MOVES, NewRecord, Taken
from queue_rules.queues.partition import QueuePartition
from queue_rules.queues.skip import fetch_matching, settle_gone, skip
from queue_tables.groups.facts import Kind
from queue_tables.log.record_bytes import bytes_up_to

_SPARSE = 4
"""If less than one of so many rows goes out, the others are not made into records."""
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
        found = pa.concat_tables(there) if there else None
        size = 0 if found is None else found.nbytes
        batch.add(taken, [] if found is None else plain_records(found), size)
        if len(taken.deliver) < _AGAIN_AT_ONCE and len(taken.moves) < MOST_MOVES:
            return


class Chunk:
    """The next rows of a partition, made into records together: few cost as much as many.

    It serves the polls of one round, one after the other. Whoever has `fetching` may use it.
    """

    def __init__(self, ahead: pa.Table, following: int, most: int, max_bytes: int) -> None:
        """Of the rows `ahead` at most so many rows and bytes, but one. `following` is the offset
        after `ahead`, or behind it: nothing in between is the group's."""
        rows = ahead.slice(0, most)
        values = bytes_up_to(rows)
        rows = rows.slice(0, max(1, int(np.searchsorted(values, max_bytes, side="right"))))
        count = rows.num_rows
        values = values[:count]
        each = max(0, rows.nbytes - int(values[-1])) // count
        self._ahead, self._rows = ahead, rows
        self.rest: pa.Table | None = ahead
        """What of `ahead` was not looked at yet."""
        self._totals = [0, *(values + each * np.arange(1, count + 1)).astype(np.int64).tolist()]
        self._offsets = numbers_of(rows["offset"])
        self._offsets.append(
            following if count == ahead.num_rows else ahead["offset"][count].as_py()
        )
        self._new: list[NewRecord] = []
        self._made: list[dict[str, Any]] | None = None
        self._at = 0

    def stands(self, owned: OwnedPartition, scan: int) -> bool:
        """Whether it has what comes next there."""
        rest = owned.read_ahead()
        more = self._at < self._rows.num_rows
        return more and rest is self.rest and self._offsets[self._at] == scan

    def next(self, max_bytes: int, *, keys: bool) -> tuple[list[NewRecord], int]:
        """Within so many bytes, but one at least; and the offset of the one after them."""
        if not self._new:
            self._new = new_records_of(self._rows, keys=keys)
        begin = self._at
        end = bisect_right(self._totals, self._totals[begin] + max_bytes) - 1
        end = min(max(begin + 1, end), self._rows.num_rows)
        return self._new[begin:end], self._offsets[end]

    def take(self, batch: PartitionBatch, taken: Taken, scan: int) -> None:
        """These of its records are taken; all before `scan` were looked at."""
        offsets, totals = self._offsets, self._totals
        last = self._rows.num_rows
        before, self._at = self._at, bisect_left(offsets, scan, self._at, last)
        self.rest = self._ahead.slice(self._at) if self._at < self._ahead.num_rows else None
        batch.owned.rows = self.rest
        if len(taken.deliver) == self._at - before:
            # All of them, as nearly always.
            made = self._made = self._made or plain_records(self._rows)
            batch.add(taken, made[before : self._at], totals[self._at] - totals[before])
            return
        places = [bisect_left(offsets, one.offset, 0, last) for one in taken.deliver]
        size = sum([totals[place + 1] - totals[place] for place in places])
        sparse = len(places) * _SPARSE < self._at - before
        batch.add(taken, self._records(places, sparse=sparse), size)

    def _records(self, places: list[int], *, sparse: bool) -> Iterator[dict[str, Any]]:
        if self._made is None and sparse:
            yield from plain_records(picked(self._rows, places)) if places else ()
            return
        made = self._made = self._made or plain_records(self._rows)
        for place in places:
            yield made[place]


def fetch_new(
    tailer: Tailer,
    batch: PartitionBatch,
    queue: QueuePartition,
    now: int,
    name: str,
    most: int,
    max_bytes: int,
    on_undecodable: OnUndecodable,
    chunks: dict[OwnedPartition, Chunk],
    share: int = 0,
) -> None:
    """Records from the scan position on: those that may go out, until there are enough.

    Of a group with a predicate for about `LOOK_S` at a time: others want to be served too.
    `chunks` are those of the round; its other polls want about `share` records of the partition.
    """
    owned, step = batch.owned, max(most, share)
    predicate = predicate_in(owned.options)
    until = boot_seconds() + FIND_S
    while len(batch.deliver) < most and batch.bytes < max_bytes and queue.held_back is None:
        if queue.scan >= tailer.end(owned.where):
            return
        if len(batch.moves) >= MOST_MOVES or (predicate and boot_seconds() > until):
            batch.more = True
            return
        chunk = chunks.get(owned)
        if chunk is None or not chunk.stands(owned, queue.scan):
            ahead, following = _ahead(tailer, owned, queue.scan, predicate, on_undecodable)
            if ahead is None:
                if following == queue.scan:
                    return
                with owned.lock:
                    batch.moves += skip(queue, following)
                continue
            owned.rows = ahead
            chunk = chunks[owned] = Chunk(ahead, following, step, max_bytes - batch.bytes)
            step = min(max(64, step * 2), 4_096)
        records, following = chunk.next(max_bytes - batch.bytes, keys=queue.policy.key_order)
        left = most - len(batch.deliver)
        with owned.lock:
            if len(records) == following - queue.scan:
                taken = queue.take_new(now, name, left, records)
            else:
                taken = fetch_matching(queue, now, name, left, records, following)
        chunk.take(batch, taken, queue.scan)


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


def picked(rows: pa.Table, places: list[int]) -> pa.Table:
    """The rows at these places, which rise."""
    if places[-1] - places[0] + 1 == len(places):
        return rows.slice(places[0], len(places))
    return rows.take(pa.array(places, pa.int64()))
