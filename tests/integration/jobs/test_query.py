"""A query over shards, with Spark: small batches are read by the driver, large ones by tasks."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from jobs.batch import SENT
from jobs.batch_files import BatchFile
from jobs.narrow import narrow_rows
from jobs.query import Part, ShardQuery
from jobs.source import SourceOptions
from jobs.term_file import Term
from lakequeue.records import Epoch
from queue_tables.root import QueueRoot
from queue_tables.snapshot import load_snapshot
from queue_tables.topics import TopicStore
from tests.support.order_truth import Inbox
from tests.support.zookeeper import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]
Batch = tuple[pa.Table, bool]
"""The rows, and whether the driver has read the files itself."""
START_S = 120.0
BYTES = 40
"""The driver reads batches up to this."""
MANY = 30
"""Commits of two bytes each: more than that."""


class Running:
    """A query that leads, and the batches that came out of it."""

    def __init__(self, spark: SparkSession, root: QueueRoot, folder: Path) -> None:
        self.folder = folder
        self._batches: queue.Queue[Batch] = queue.Queue()
        options = SourceOptions(root.uri, folder, "inbox", 1 << 30, BYTES, 0.2, 0.0, 2)
        self.query = ShardQuery(spark, options, self._keep)
        self.query.start(folder / "checkpoint")
        wait_for(self.query.rehearsed.is_set, "the rehearsal", START_S)

    def _keep(self, _spark: SparkSession, parts: Sequence[Part]) -> None:
        (read,) = parts
        rows, sources = read()
        self._batches.put((rows, len(sources) > 0))

    def next(self) -> Batch:
        """The next batch."""
        self.query.wake()
        return self._batches.get(timeout=60)


@pytest.fixture
def running(spark: SparkSession, root: QueueRoot, tmp_path: Path) -> Iterator[Running]:
    """A query over the inbox; it idles."""
    folder = tmp_path / "driver"
    folder.mkdir()
    made = Running(spark, root, folder)
    yield made
    made.query.hold()
    for query in spark.streams.active:
        query.stop()


def fill(root: QueueRoot, inbox: Inbox, stamps: range) -> None:
    """One commit of two records a stamp."""
    topic_id = TopicStore(root).get("orders").topic_id
    for stamp in stamps:
        inbox.commit(
            stamp,
            [{"topic_id": topic_id, "value": b"v", "message_id": f"{stamp}-{n}"} for n in range(2)],
        )


def test_both_ways_bring_the_rows_that_are_in_the_files(root: QueueRoot, running: Running) -> None:
    TopicStore(root).create("orders", partitions=1)
    inbox = Inbox(root, "a")
    fill(root, inbox, range(1, 1 + MANY))
    running.query.lead(lambda: Term(Epoch(1)))
    large, by_driver = running.next()
    assert large.num_rows == 2 * MANY
    assert not by_driver

    fill(root, inbox, range(1 + MANY, 2 + MANY))
    small, by_driver = running.next()
    assert small.num_rows == 2
    assert by_driver

    path = f"inbox/{inbox.name}"
    adds = load_snapshot(root.store, path).files
    expected = pa.Table.from_batches(
        narrow_rows(root.store, [BatchFile(inbox.name, a) for a in adds]), SENT
    )
    got = pa.concat_tables(table.cast(SENT) for table in (large, small))
    order = [("stamp", "ascending"), ("row", "ascending")]
    assert (
        got.sort_by(order)
        .drop(["file", "topic_id"])
        .equals(expected.sort_by(order).drop(["file", "topic_id"]))
    )
