"""Where a batch begins and ends, by times: those of the records, and those of their ordering."""

from __future__ import annotations

import pytest

from lakequeue.errors import InvalidRequest
from queue_tables.root import QueueRoot
from tests.support.data.log_builder import LogBuilder
from tests.support.spark.source_readers import Reads, batch, rows_of

MS = 1_700_000_000_000


def test_a_batch_begins_and_ends_at_times(root: QueueRoot, log: LogBuilder) -> None:
    topic = log.topic("orders", 2)
    for n in range(4):
        log.append(topic, [f"{n}"], 0, timestamp=(MS + 1_000 + n) * 1_000)
    log.append(topic, ["x"], 1, timestamp=(MS + 1_000) * 1_000)
    found = rows_of(
        batch(
            root,
            subscribe="orders",
            startingOffsetsByTimestamp=f'{{"orders":{{"0":{MS + 1001},"1":{MS}}}}}',
            endingTimestamp=str(MS + 1003),
        )
    )
    assert [(r["partition"], r["offset"]) for r in found] == [(0, 1), (0, 2), (1, 0)]
    with pytest.raises(InvalidRequest, match="no record of orders/1 is at or after 1700000001001"):
        rows_of(batch(root, subscribe="orders", startingTimestamp=str(MS + 1001)))
    found = rows_of(
        batch(
            root,
            subscribe="orders",
            startingTimestamp=str(MS + 1001),
            startingOffsetsByTimestampStrategy="latest",
        )
    )
    assert [(r["partition"], r["offset"]) for r in found] == [(0, 1), (0, 2), (0, 3)]


def test_a_batch_reads_what_had_been_ordered_at_a_time_and_opens_no_older_files_to_find_it(
    root: QueueRoot, reads: Reads
) -> None:
    ordered_at = iter(range(MS * 1_000 + 1_000_000, MS * 1_000 + 11_000_000, 1_000_000))
    log = LogBuilder(root, wall=lambda: next(ordered_at))
    topic = log.topic("orders", 2)
    for n in range(10):
        # The records' own times go backwards: only when they were ordered counts.
        log.append_many(topic, {0: [f"{n}"], 1: [f"{n}"]}, timestamp=(100 - n) * 1_000)

    def read(as_of: int, **more: str) -> list[tuple[int, int]]:
        rows = rows_of(batch(root, subscribe="orders", asOfTimestamp=str(MS + as_of), **more))
        return sorted((row["partition"], row["offset"]) for row in rows)

    def first(commits: int) -> list[tuple[int, int]]:
        return [(partition, n) for partition in (0, 1) for n in range(commits)]

    assert read(999) == []
    assert read(1_000) == first(1), "at that very time: it counts"
    assert read(6_999) == first(6)
    assert read(10_000) == read(99_000) == first(10)
    late = '{"orders":{"0":8,"1":8}}'
    reads.files.clear()
    assert read(9_500, startingOffsets=late) == [(0, 8), (1, 8)]
    assert len(reads.files) == 3, "the oldest, the wanted one, and the one behind it"
