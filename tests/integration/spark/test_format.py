"""`format("lakequeue")` in a real Spark session, batch and streaming."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

import lakequeue.spark
from queue_tables.groups.state import read_group_state
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from tests.support.data.log_builder import LogBuilder

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

# As Spark's KafkaRecordToRowConverter declares it.
KAFKA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])


@pytest.fixture
def log(root: QueueRoot) -> LogBuilder:
    return LogBuilder(root)


def run_available(
    frame: DataFrame, folder: Path, each: Callable[[DataFrame, int], None]
) -> StreamingQuery:
    """Run the stream to its end on the checkpoint in `folder`."""
    query = (
        frame.writeStream.foreachBatch(each)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def test_the_schema_is_that_of_the_kafka_source(
    spark: SparkSession, root: QueueRoot, log: LogBuilder
) -> None:
    log.topic("orders")
    reader = spark.read.format("lakequeue").option("root", root.uri).option("subscribe", "orders")
    assert reader.load().schema == KAFKA
    assert reader.option("includeHeaders", "true").load().schema == KAFKA.add(
        StructField("headers", ArrayType(HEADER))
    )


def test_a_batch_query_needs_no_registration_and_gives_every_record(
    spark: SparkSession, root: QueueRoot, log: LogBuilder
) -> None:
    topic = log.topic("orders", 2)
    for n in range(3):
        log.append_many(
            topic, {0: [f"a{n}"] * 50, 1: [f"b{n}"] * 20}, timestamp=1_700_000_000_000_000
        )
    frame = (
        spark.read.format("lakequeue")
        .options(root=root.uri, subscribe="orders", minPartitions="4")
        .load()
    )
    assert frame.rdd.getNumPartitions() >= 4
    found = frame.selectExpr("partition", "offset", "cast(value as string) value").collect()
    assert sorted((r.partition, r.offset, r.value) for r in found) == [
        *((0, n, f"a{n // 50}") for n in range(150)),
        *((1, n, f"b{n // 20}") for n in range(60)),
    ]
    assert frame.selectExpr("max(timestamp) t").collect()[0].t.timestamp() == 1_700_000_000.0


def test_a_batch_query_that_wants_no_record_gives_none(
    spark: SparkSession, root: QueueRoot, log: LogBuilder
) -> None:
    log.append(log.topic("orders"), ["v"])
    reader = spark.read.format("lakequeue").option("root", root.uri)
    none = reader.options(subscribePattern="orders", endingTimestamp="1980-01-01T00:00:00Z").load()
    nobody = reader.option("subscribePattern", "nobody.*").load()
    assert none.collect() == nobody.collect() == []


def test_times_have_a_zone_whatever_the_session_takes_a_timestamp_for(
    spark: SparkSession, root: QueueRoot, log: LogBuilder
) -> None:
    log.append(log.topic("orders"), ["v"], timestamp=1_700_000_000_000_000)
    session = spark.newSession()
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    frame = session.read.format("lakequeue").options(root=root.uri, subscribe="orders").load()
    assert frame.selectExpr("unix_millis(timestamp)").first() == (1_700_000_000_000,)


def test_a_stream_goes_on_from_its_checkpoint_in_batches_of_the_limit(
    spark: SparkSession, root: QueueRoot, log: LogBuilder, tmp_path: Path
) -> None:
    name = lakequeue.spark.register(spark, "lakequeue_limited")
    topic = log.topic("orders", 2)
    log.append_many(topic, {0: ["v"] * 30, 1: ["v"] * 10})
    frame = (
        spark.readStream.format(name)
        .options(root=root.uri, subscribe="orders", startingOffsets="earliest")
        .options(maxOffsetsPerTrigger="16", **{"group.id": "nightly"})
        .load()
    )
    batches: list[list[tuple[int, int]]] = []

    def keep(rows: DataFrame, _: int) -> None:
        batches.append(
            [(r.partition, r.offset) for r in rows.select("partition", "offset").collect()]
        )

    run_available(frame, tmp_path, keep)
    assert [len(batch) for batch in batches] == [16, 16, 8]
    states = read_group_state(root, "nightly").states
    done = {key.partition: state.committed_offset for key, state in states.items()}
    assert done == {0: 30, 1: 10}, "the last batch too, though none has followed it"
    log.append(topic, ["w"] * 3, 1)
    query = run_available(frame, tmp_path, keep)
    assert batches[3:] == [[(1, 10), (1, 11), (1, 12)]]
    assert sorted(row for batch in batches for row in batch) == [
        *((0, n) for n in range(30)),
        *((1, n) for n in range(13)),
    ]
    progress = query.lastProgress
    assert progress is not None
    assert '"orders": {"0": 30, "1": 13}' in str(progress["sources"][0]["endOffset"])


def test_a_topic_deleted_under_a_stream_ends_it_with_the_reason(
    spark: SparkSession, root: QueueRoot, log: LogBuilder, tmp_path: Path
) -> None:
    name = lakequeue.spark.register(spark, "lakequeue_deleted")
    log.append(log.topic("orders"), ["v"])
    frame = (
        spark.readStream.format(name)
        .options(root=root.uri, subscribe="orders", startingOffsets="earliest")
        .load()
    )
    run_available(frame, tmp_path, lambda rows, _: rows.foreach(lambda _: None))
    TopicStore(root).delete("orders")
    with pytest.raises(StreamingQueryException, match="orders/0 are gone"):
        run_available(frame, tmp_path, lambda rows, _: None)


def test_a_wrong_option_is_named_when_the_frame_is_made_or_read(
    spark: SparkSession, root: QueueRoot, log: LogBuilder
) -> None:
    log.topic("orders")
    reader = spark.read.format("lakequeue").option("root", root.uri)
    with pytest.raises(Exception, match="did you mean startingOffsets"):
        reader.options(subscribe="orders", startingOffset="earliest").load().count()


def test_a_scan_by_spark_itself_has_the_rows_of_the_source(
    spark: SparkSession, root: QueueRoot, log: LogBuilder
) -> None:
    for name in ("orders", "flights"):
        topic = log.topic(name, 2)
        log.append_many(topic, {0: [f"{name}-a", "b"], 1: ["c"]})
        log.append(topic, ["d"], headers=[[{"key": "h", "value": b"v"}]])
    reader = spark.read.format("lakequeue").options(root=root.uri, includeHeaders="true")
    expected = reader.option("subscribe", "orders").load()
    found = lakequeue.spark.records(spark, root.uri, "orders")
    assert found.schema.simpleString() == expected.schema.simpleString()
    order = ["partition", "offset"]
    assert found.orderBy(*order).collect() == expected.orderBy(*order).collect()
    assert lakequeue.spark.records(spark, root.uri, "orders", "flights").count() == 8
