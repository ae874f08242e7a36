"""What users of `format("kafka")` expect, and a source in Python does not give by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.readwriter import DataFrameReader

import lakequeue.spark
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from tests.support.data.log_builder import LogBuilder
from tests.support.services.order_thread import ordering
from tests.support.services.zookeeper import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """A registered session on the shared context."""
    session = spark.newSession()
    lakequeue.spark.register(session)
    return session


@pytest.fixture(scope="module")
def plain(spark: SparkSession) -> SparkSession:
    """One that nobody has registered."""
    return spark.newSession()


def reader(spark: SparkSession, root: QueueRoot, **options: str) -> DataFrameReader:
    given = {"root": root.uri, "subscribe": "orders"} | options
    return spark.read.format("lakequeue").options(**given)


# -- every action looks anew ----------------------------------------------------------------------


def test_every_action_on_a_frame_shows_what_has_come_since(
    session: SparkSession, root: QueueRoot, log: LogBuilder
) -> None:
    topic = log.topic("orders", 2)
    log.append(topic, ["a"])
    frame = reader(session, root).load()
    frame.createOrReplaceTempView("orders_now")
    values = frame.selectExpr("cast(value AS string) AS value").where("value <> 'x'")

    def seen() -> list[int]:
        return [
            frame.count(),
            session.sql("SELECT * FROM orders_now").count(),
            len(frame.select("*").collect()),
            values.count(),
            frame.alias("a").join(frame.alias("b"), "offset").count(),
        ]

    assert seen() == [1] * 5
    log.append(topic, ["b"])
    assert seen() == [2] * 5
    assert frame.rdd.count() == 2
    log.append(topic, ["c"])
    assert seen() == [3] * 5


@pytest.mark.parametrize(
    "columns", ["value", "timestamp,headers", "key,timestampType", "partition,topic"]
)
def test_so_does_a_frame_of_few_columns_whatever_they_are(
    session: SparkSession, root: QueueRoot, log: LogBuilder, columns: str
) -> None:
    topic = log.topic("orders")
    log.append(topic, ["a"])
    frame = reader(session, root, columns=columns).load()
    assert set(frame.columns) == set(columns.split(","))
    assert frame.count() == 1
    log.append(topic, ["b"])
    assert frame.count() == 2


def test_a_stream_that_is_joined_with_a_frame_sees_what_came_before_each_batch(
    session: SparkSession, root: QueueRoot, log: LogBuilder, tmp_path: Path
) -> None:
    topic = log.topic("orders")
    log.append(topic, ["a"])
    ticks = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    frame = reader(session, root).load().select("offset")
    seen: list[int] = []

    def each(batch: DataFrame, _: int) -> None:
        seen.append(batch.count())
        if len(seen) < 3:
            log.append(topic, ["b"])

    query = (
        ticks.crossJoin(frame)
        .writeStream.foreachBatch(each)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        wait_for(lambda: len(seen) >= 3 or not query.isActive, "three batches", 60.0)
    finally:
        query.stop()
    assert seen[:3] == [1, 2, 3]


FILTERS = {
    "offset > 1": 1,
    "timestamp > '2020-01-01'": 3,
    "timestamp < timestamp'2100-01-01'": 3,
    # Times that Python cannot hold: Spark offers these filters too.
    "timestamp < timestamp'+10000-01-01'": 3,
    "timestamp > timestamp'-0001-01-01'": 3,
    "timestamp IN (timestamp'+12000-06-01', timestamp'2100-01-01')": 0,
    "topic IN ('orders', 'others')": 3,
    "headers IS NULL": 3,
    "cast(value AS string) = 'a'": 1,
    "value = X'61'": 1,
    "key IS NOT NULL": 3,
    "partition = 1 OR offset = 1": 1,
    "NOT partition <=> 1": 3,
    "topic LIKE 'ord%'": 3,
}


def test_filters_of_a_query_hold_as_ever(
    session: SparkSession, root: QueueRoot, log: LogBuilder
) -> None:
    log.append(log.topic("orders", 2), ["a", "b", "c"])
    frame = reader(session, root, includeHeaders="true").load()
    assert {text: frame.where(text).count() for text in FILTERS} == FILTERS


# -- what is refused, and when --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["session", "plain"])
def test_a_wrong_option_is_refused_by_load(
    name: str, root: QueueRoot, log: LogBuilder, request: pytest.FixtureRequest
) -> None:
    spark = request.getfixturevalue(name)
    log.topic("orders")
    given = {"root": root.uri, "subscribe": "orders", "startingOffset": "earliest"}
    for source in (spark.read, spark.readStream):
        with pytest.raises(AnalysisException) as refused:
            source.format("lakequeue").options(**given).load()
        assert "did you mean startingOffsets" in str(refused.value)


def test_what_is_wrong_in_a_batch_alone_is_refused_by_load_in_a_registered_session(
    session: SparkSession, root: QueueRoot, log: LogBuilder
) -> None:
    log.topic("orders")
    with pytest.raises(AnalysisException, match="can't be latest"):
        reader(session, root, startingOffsets="latest").load()
    with pytest.raises(AnalysisException, match="fixed schema"):
        reader(session, root).schema("value STRING").load()
    assert reader(session, root).schema(reader(session, root).load().schema).load().count() == 0


def test_a_schema_of_one_s_own_is_refused_before_a_task_runs(
    plain: SparkSession, root: QueueRoot, log: LogBuilder
) -> None:
    log.append(log.topic("orders"), ["a"])
    with pytest.raises(AnalysisException, match="fixed schema"):
        reader(plain, root).schema("value STRING").load().collect()


def test_what_is_wrong_in_a_stream_alone_ends_it_with_the_reason(
    plain: SparkSession, root: QueueRoot, log: LogBuilder, tmp_path: Path
) -> None:
    log.topic("orders")
    given = {"root": root.uri, "subscribe": "orders"}
    for wrong, why in (
        (plain.readStream.options(endingOffsets="latest"), "is not valid in a streaming query"),
        (plain.readStream.schema("value STRING"), "fixed schema"),
    ):
        frame = wrong.format("lakequeue").options(**given).load()
        query = frame.writeStream.format("noop").trigger(availableNow=True).start()
        with pytest.raises(StreamingQueryException) as ended:
            query.awaitTermination()
        assert why in str(ended.value)
        assert "UnboundLocalError" not in str(ended.value)


# -- streams --------------------------------------------------------------------------------------


def test_a_progress_reads_like_that_of_the_kafka_source(
    plain: SparkSession, root: QueueRoot, log: LogBuilder, tmp_path: Path
) -> None:
    log.append_many(log.topic("orders", 2), {0: ["v"] * 6, 1: ["v"] * 2})
    name = lakequeue.spark.register(plain, "lakequeue_progress", native=False)
    stream = plain.readStream.format(name).options(
        root=root.uri, subscribe="orders", startingOffsets="earliest", maxOffsetsPerTrigger="4"
    )
    query = stream.load().writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()
    first = query.recentProgress[0]
    (behind,) = lakequeue.spark.offsets_behind_latest(first)
    assert behind == {
        "minOffsetsBehindLatest": "1",
        "maxOffsetsBehindLatest": "3",
        "avgOffsetsBehindLatest": "2.0",
    }
    assert first["sources"][0]["endOffset"].startswith('{"orders": {"0": 3, "1": 1}')


def totals(spark: SparkSession) -> DataFrame:
    """One row in each batch: how many there have been."""
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2).load()
    return ticks.groupBy().agg(sf.count("*").alias("n")).selectExpr("cast(n AS string) AS value")


def values(root: QueueRoot, spark: SparkSession) -> list[str]:
    frame = reader(spark, root).load().selectExpr("cast(value AS string) AS value")
    return sorted((row.value for row in frame.collect()), key=int)


def test_output_mode_complete_adds_the_whole_result_of_each_batch(
    session: SparkSession, root: QueueRoot, tmp_path: Path
) -> None:
    TopicStore(root).create("orders", partitions=1)
    with ordering(root):
        query = (
            totals(session)
            .writeStream.format("lakequeue")
            .outputMode("complete")
            .options(root=root.uri, topic="orders", checkpointLocation=str(tmp_path / "c"))
            .start()
        )
        try:
            wait_for(lambda: len(values(root, session)) >= 2 or not query.isActive, "rows", 60.0)
        finally:
            query.stop()
    assert values(root, session)[:2] == ["2", "4"]


def test_output_mode_update_is_refused_by_spark_and_works_by_a_function(
    session: SparkSession, root: QueueRoot, tmp_path: Path
) -> None:
    TopicStore(root).create("orders", partitions=1)
    stream = totals(session).writeStream.outputMode("update")
    where = {"root": root.uri, "topic": "orders"}
    query = (
        stream.format("lakequeue")
        .options(checkpointLocation=str(tmp_path / "refused"), **where)
        .start()
    )
    with pytest.raises(StreamingQueryException, match="does not support Update mode"):
        query.awaitTermination()

    def each(batch: DataFrame, batch_id: int) -> None:
        once = {"txnAppId": "totals", "txnVersion": str(batch_id)}
        batch.write.format("lakequeue").options(**where, **once).mode("append").save()

    with ordering(root):
        stream = totals(session).writeStream.outputMode("update").foreachBatch(each)
        query = stream.option("checkpointLocation", str(tmp_path / "taken")).start()
        try:
            wait_for(lambda: len(values(root, session)) >= 2 or not query.isActive, "rows", 60.0)
        finally:
            query.stop()
    assert values(root, session)[:2] == ["2", "4"]


# -- tables of the catalog, and the root ----------------------------------------------------------


def test_a_table_of_the_catalog_is_refused_when_it_is_made(
    session: SparkSession, root: QueueRoot, log: LogBuilder
) -> None:
    log.topic("orders")
    with pytest.raises(AnalysisException):
        session.sql(
            f"CREATE TABLE orders USING lakequeue OPTIONS (root '{root.uri}', subscribe 'orders')"
        )


def test_a_root_that_is_not_given_is_that_of_the_environment(
    session: SparkSession, root: QueueRoot, log: LogBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append(log.topic("orders"), ["a"])
    bare = session.read.format("lakequeue").option("subscribe", "orders")
    monkeypatch.setenv("LAKEQUEUE_ROOT", root.uri)
    assert bare.load().count() == 1
