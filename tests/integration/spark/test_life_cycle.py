"""Retention and compaction under Spark: the same rows in every engine, a stream that goes on."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import lakequeue.spark
from lakequeue.clock import wall_micros
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from tests.support.data.order_truth import Inbox, rows_in
from tests.support.runs.maintenance_process import run_compaction, run_retention
from tests.support.runs.order_process import Orderer

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
HOUR = 3_600 * 1_000_000


class Queue:
    """Two topics whose records are ordered 20 minutes apart, beginning a day ago."""

    def __init__(self, root: QueueRoot) -> None:
        topics = TopicStore(root)
        self.topics = [topics.create(name, partitions=1)[0] for name in ("orders", "visits")]
        self.inbox = Inbox(root, "n")
        self.now = wall_micros() - 24 * HOUR
        self.orderer = Orderer(root, 1, wall=lambda: self.now)
        self.count = 0

    def order(self, batches: int) -> None:
        for _ in range(batches):
            self.now += HOUR // 3
            records = [{"topic_id": t.topic_id, "value": b"%d" % self.count} for t in self.topics]
            self.inbox.commit(self.now, records)
            self.orderer.drain()
            self.count += 1


def stream_what_is_there(spark: SparkSession, root: QueueRoot, folder: Path) -> list[int]:
    """Offsets of `orders` that the stream has written so far, in all its runs."""
    source = spark.readStream.format("lakequeue").option("lakequeue.root", root.uri)
    rows = source.option("subscribe", "orders").option("startingOffsets", "earliest").load()
    writer = rows.selectExpr("offset").writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.option("path", str(folder / "out")).trigger(availableNow=True).start()
    query.awaitTermination()
    found = spark.read.schema("offset BIGINT").parquet(str(folder / "out"))
    return sorted(row.offset for row in found.collect())


def test_engines_agree_and_a_stream_goes_on_after_retention_and_compaction(
    spark: SparkSession, root: QueueRoot, tmp_path: Path
) -> None:
    lakequeue.spark.register(spark)
    queue = Queue(root)
    queue.order(30)
    assert stream_what_is_there(spark, root, tmp_path) == list(range(30))
    now = wall_micros()
    assert run_compaction(root, now)["log"]["commits"] > 0
    TopicStore(root).alter("visits", retention_ms=18 * 3_600_000)
    removed = run_retention(root, now)["log"]["topics"]["visits"]["rows_removed"]
    assert 0 < removed < 30
    run_compaction(root, now, grace_hours=0)
    queue.orderer = Orderer(root, 2, wall=lambda: queue.now)
    queue.order(10)
    ours = sorted(
        (r["topic"], r["partition"], r["offset"], r["value"]) for r in rows_in(root, "log")
    )
    assert len(ours) == 80 - removed
    table = DeltaTable(f"{root.uri}/log")
    columns = ["topic", "partition", "offset", "value"]
    by_delta_rs = table.to_pyarrow_table(columns=columns).to_pylist()
    assert sorted(tuple(row.values()) for row in by_delta_rs) == ours
    duck = duckdb.connect().register("log", table.to_pyarrow_dataset())
    assert (
        sorted(duck.execute('SELECT topic, "partition", "offset", value FROM log').fetchall())
        == ours
    )
    by_spark = spark.read.format("delta").load(f"{root.uri}/log").select(*columns).collect()
    assert sorted((r[0], r[1], r[2], bytes(r[3])) for r in by_spark) == ours
    assert stream_what_is_there(spark, root, tmp_path) == list(range(40))
    batch = spark.read.format("lakequeue").option("lakequeue.root", root.uri)
    rows = batch.option("subscribe", "orders").load()
    assert sorted(int(bytes(row.value)) for row in rows.collect()) == list(range(40))
