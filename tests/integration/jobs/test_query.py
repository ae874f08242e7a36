"""A query over shards, with Spark: small batches are read by the driver, large ones by tasks."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from jobs.ordering.order_job import OrderJob
from jobs.rows.batch_file import BatchFile
from jobs.rows.key_projection import project_rows
from jobs.rows.projected_rows import SENT
from jobs.source.leader_state import LeaderState
from jobs.source.source import SourceOptions
from jobs.streaming.query import Part, ShardQuery
from lakequeue.records import Epoch
from lakequeue.settings import OrderSettings
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import INBOX
from queue_tables.topics import TopicStore
from tests.support.data.foreign_shard import ForeignShard, between_good_ones, records
from tests.support.data.hostile_rows import hostile_rows
from tests.support.data.order_truth import Inbox, log_rows, reject_rows
from tests.support.services.zookeeper import wait_for

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
        self.query = ShardQuery(spark, options, lambda *batch: partial(self._keep, *batch))
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
    ended(spark, made.query)


def ended(spark: SparkSession, query: ShardQuery) -> None:
    """End it between batches."""
    query.hold()
    for running in spark.streams.active:
        running.stop()


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
    running.query.lead(lambda: LeaderState(Epoch(1)))
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
        project_rows(root.store, [BatchFile(inbox.name, a) for a in adds]), SENT
    )
    got = pa.concat_tables(table.cast(SENT) for table in (large, small))
    order = [("stamp", "ascending"), ("row", "ascending")]
    assert (
        got.sort_by(order)
        .drop(["file", "topic_id"])
        .equals(expected.sort_by(order).drop(["file", "topic_id"]))
    )


def order_options(root: QueueRoot, folder: Path, driver_bytes: int) -> SourceOptions:
    return SourceOptions(root.uri, folder, "inbox", 1 << 30, driver_bytes, 0.2, 0.0, 2)


@pytest.mark.parametrize("driver_bytes", [0, 1 << 30], ids=["tasks", "driver"])
def test_ordering_goes_on_over_hostile_rows_and_a_file_that_is_gone(
    spark: SparkSession,
    root: QueueRoot,
    tmp_path: Path,
    driver_bytes: int,
    request: pytest.FixtureRequest,
) -> None:
    topic_id = str(TopicStore(root).create("orders", partitions=1)[0].topic_id)
    hostile, holey = ForeignShard(root), ForeignShard(root, "holey")
    bad = [h for h in hostile_rows(INBOX) if h.column != "hour"]
    for n, one in enumerate(bad, start=1):
        hostile.commit(n, between_good_ones(topic_id, n, one))
    gone = holey.commit(5, records(topic_id, 5, [b"gone"]))
    kept = bytes(root.store.get(holey.file_of(gone)))
    root.store.delete(holey.file_of(gone))
    holey.commit(6, records(topic_id, 6, [b"after"]))

    settings = OrderSettings(driver_batch_bytes=driver_bytes)
    job = OrderJob(root, settings, None)
    job.warm()
    job.begin(Epoch(1))
    folder = tmp_path / "driver"
    folder.mkdir()
    query = ShardQuery(spark, order_options(root, folder, driver_bytes), job.prepare)
    request.addfinalizer(lambda: ended(spark, query))
    query.start(folder / "checkpoint")
    wait_for(query.rehearsed.is_set, "the rehearsal", START_S)
    query.lead(job.state)

    def ordered(value: bytes) -> int:
        return sum(row["value"] == value for row in log_rows(root))

    wait_for(lambda: ordered(b"good") == 2 * len(bad), "every good row", START_S)
    assert len(log_rows(root)) + len(reject_rows(root)) == 3 * len(bad)
    assert "malformed" in {row["reason"] for row in reject_rows(root)}
    assert [holey.name in warning for warning in job.warnings()] == [True]

    # It is brought back while the query runs, and what stood behind it comes after it.
    hostile.commit(1_000, records(topic_id, 1_000, [b"good"]))
    query.wake()
    wait_for(lambda: ordered(b"good") == 2 * len(bad) + 1, "what came meanwhile", START_S)
    assert not ordered(b"after")
    root.store.put(holey.file_of(gone), kept)
    assert job.upkeep(None)
    query.tell()
    wait_for(lambda: ordered(b"after") == 1, "what waited", START_S)
    log = log_rows(root)
    assert [row["value"] for row in log][-2:] == [b"gone", b"after"]
    assert [row["offset"] for row in log] == list(range(len(log)))
    assert not job.warnings()
    assert query.error is None
