"""Writes to `format("lakequeue")` in a real Spark session, ordered by the order job's own parts."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import lakequeue.spark
from lakequeue.partitioner import partition_of
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.root import QueueRoot
from queue_tables.schema.topic_rules import Topic
from queue_tables.shards.shards import is_sealed
from queue_tables.topics import TopicStore
from tests.support.data.order_truth import judge, reject_rows
from tests.support.data.topic_values import ordered
from tests.support.runs.order_process import Orderer
from tests.support.services.order_thread import ordering
from tests.support.spark.checkpoint import forget_the_last_batch

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def topic(root: QueueRoot) -> Topic:
    return TopicStore(root).create("orders", partitions=3)[0]


def lines(letter: str) -> str:
    """Forty records as JSON lines."""
    return "".join(json.dumps({"value": f"{letter}{n}"}) + "\n" for n in range(40))


def write(frame: DataFrame, root: QueueRoot, **options: str) -> None:
    """Without a wait for the order, which most tests see to themselves, later."""
    given = {"root": root.uri, "wait": "committed", **options}
    frame.write.format("lakequeue").options(**given).mode("append").save()


def test_a_frame_of_many_tasks_becomes_one_version_with_all_it_says(
    spark: SparkSession, root: QueueRoot, topic: Topic
) -> None:
    frame = spark.range(0, 3_000, 1, 6).selectExpr(
        "concat('k', id % 10) key",
        "concat('v', id) value",
        "if(id % 3 = 0, cast(2 as int), null) partition",
        "if(id = 7, array(struct('h' as key, cast('x' as binary) as value)), null) headers",
        "timestamp_micros(id) timestamp",
    )
    write(frame, root, topic="orders")
    shards = root.shards("inbox")
    assert [is_sealed(root, "inbox", shard) for shard in shards] == [True]
    orderer = Orderer(root, 1)
    assert [batch["rows"] for batch in orderer.drain()] == [3_000], "one commit, one batch"
    rows = ordered(root, topic, 2)
    assert Counter(r["value"] for r in rows) == {f"v{n}".encode(): 1 for n in range(3_000)}
    for row in rows:
        n = int(row["value"][1:])
        assert row["key"] == f"k{n % 10}".encode()
        assert n % 3 or row["partition"] == 2
        assert row["headers"] == ([{"key": "h", "value": b"x"}] if n == 7 else [])
        assert row["message_id"] is None
    of_one_key = {r["partition"] for r in rows if r["key"] == b"k1" and int(r["value"][1:]) % 3}
    assert len(of_one_key) == 1


def test_what_was_saved_is_there_for_the_next_read(
    spark: SparkSession, root: QueueRoot, topic: Topic
) -> None:
    frame = spark.range(0, 8, 1, 3).selectExpr("cast(id as string) value")
    with ordering(root):
        for writes in (1, 2, 3):
            # A write that another has made is waited for as well.
            version = {"txnAppId": "nightly", "txnVersion": str(writes // 2)}
            write(frame, root, topic="orders", wait="ordered", **version)
            read = spark.read.format("lakequeue").options(root=root.uri, subscribe="orders").load()
            assert read.count() == 8 * (1 + writes // 2)


def test_a_write_that_nobody_orders_ends_and_is_stored_once(
    spark: SparkSession, root: QueueRoot, topic: Topic
) -> None:
    frame = spark.range(8).selectExpr("cast(id as string) value")
    write(frame, root, topic="orders", wait="ordered", timeoutMs="200")
    assert len(ordered(root, topic)) == 8


def test_rows_that_the_topic_refuses_go_to_the_topic_for_them(
    spark: SparkSession, root: QueueRoot
) -> None:
    topics = TopicStore(root)
    orders = topics.create(
        "orders", partitions=2, value_schema='{"required": ["id"]}', max_record_bytes=1_000_000
    )[0]
    bad = topics.create("bad", partitions=1)[0]
    good = spark.range(0, 500, 1, 4).selectExpr("to_json(struct(id)) value", "cast(0 as int) p")
    wrong = spark.range(3).selectExpr(
        "array('{}', concat('{\"id\":\"', repeat('x', 1500000), '\"}'), '{\"id\":1}')[id] value",
        "if(id = 2, cast(9 as int), null) p",
    )
    frame = good.union(wrong).selectExpr("value", "p partition")
    write(frame, root, topic="orders", badTopic="bad")
    rows = ordered(root, orders)
    assert sorted(json.loads(r["value"])["id"] for r in rows) == list(range(500))
    strays = {}
    for row in ordered(root, bad, 2):
        said = {h["key"]: h["value"].decode() for h in row["headers"]}
        assert said["lakequeue-wanted-topic"] == "orders"
        strays[said["lakequeue-refused"][:30]] = (len(row["value"]), said.get("lakequeue-cut"))
    assert sorted(strays.values()) == [(2, None), (8, None), (1 << 19, "1500009")]


def test_a_write_with_a_transaction_counts_once(
    spark: SparkSession, root: QueueRoot, topic: Topic
) -> None:
    frame = spark.range(100).selectExpr("cast(id as string) value")
    for version in ("1", "1", "2"):
        write(frame, root, topic="orders", txnAppId="nightly", txnVersion=version)
    rows = ordered(root, topic)
    assert Counter(r["value"] for r in rows) == {str(n).encode(): 2 for n in range(100)}
    assert len({r["message_id"] for r in rows}) == 200


def test_a_topic_that_is_drained_to_grow_takes_no_rows_until_it_has_grown(
    spark: SparkSession, root: QueueRoot, topic: Topic
) -> None:
    frame = spark.range(8).selectExpr("concat('k', id) key", "cast(id as string) value")
    topics = TopicStore(root)
    topics.create("other", partitions=1)
    topics.alter("orders", closed_for_ms=60_000)
    with pytest.raises(Exception, match=r"topic orders takes no records for .*: it is drained"):
        write(frame.selectExpr("*", "'orders' topic"), root)
    assert not load_snapshot(root.store, f"inbox/{root.shards('inbox')[0]}").files
    write(frame.selectExpr("*", "'other' topic"), root)
    grown = topics.alter("orders", partitions=4, closed_for_ms=0)
    write(frame, root, topic="orders")
    rows = ordered(root, grown)
    assert {r["partition"] for r in rows} == {partition_of(r["key"], 4) for r in rows}
    assert len(rows) == 8


def test_given_ids_are_deduplicated_by_the_order_job(
    spark: SparkSession, root: QueueRoot, topic: Topic
) -> None:
    frame = spark.range(50).selectExpr("cast(id as string) value", "concat('m', id) message_id")
    write(frame, root, topic="orders")
    write(frame, root, topic="orders")
    assert len(ordered(root, topic)) == 50


def test_a_write_whose_task_dies_leaves_nothing_and_counts_once_when_done_again(
    spark: SparkSession, root: QueueRoot, topic: Topic, tmp_path: Path
) -> None:
    marker = str(tmp_path / "failed")

    def fail_late(batches: Any) -> Any:
        yield from batches
        if not Path(marker).exists():
            Path(marker).touch()
            raise RuntimeError("the task dies after its rows were taken")

    frame = spark.range(0, 1_000, 1, 4).selectExpr("cast(id as string) value")
    dying = frame.mapInArrow(fail_late, "value STRING")
    with pytest.raises(Exception, match="the task dies"):
        write(dying, root, topic="orders")
    assert ordered(root, topic) == []
    write(dying, root, topic="orders")
    assert len(ordered(root, topic, 2)) == 1_000


@pytest.mark.parametrize(
    ("sql", "options", "said"),
    [
        ("cast(id as string) v", {"topic": "orders"}, "required column 'value' not found"),
        ("cast(id as string) value", {}, "neither an option nor a column 'topic'"),
        ("id value", {"topic": "orders"}, "column 'value' is bigint"),
        ("cast(id as string) value", {"topic": "nowhere"}, "topic 'nowhere' does not exist"),
        ("null topic, cast(id as string) value", {}, "column 'topic' is void"),
        ("cast(null as string) topic, 'v' value", {}, "null topic present"),
        ("'v' value, cast(9 as int) partition", {"topic": "orders"}, "partition 9 of topic"),
    ],
)
def test_a_wrong_write_is_refused_and_leaves_nothing(
    spark: SparkSession,
    root: QueueRoot,
    topic: Topic,
    sql: str,
    options: dict[str, str],
    said: str,
) -> None:
    frame = spark.range(5).selectExpr(*sql.split(", ")) if sql else spark.range(5)
    with pytest.raises(Exception, match=said):
        write(frame, root, **options)
    assert root.shards("inbox") == []


def test_overwriting_is_refused(spark: SparkSession, root: QueueRoot, topic: Topic) -> None:
    frame = spark.range(5).selectExpr("cast(id as string) value")
    writer = frame.write.format("lakequeue").options(root=root.uri, topic="orders")
    with pytest.raises(Exception, match="mode overwrite is not allowed"):
        writer.mode("overwrite").save()


def test_a_stream_writes_each_batch_once_also_when_its_last_is_run_again(
    spark: SparkSession, root: QueueRoot, topic: Topic, tmp_path: Path
) -> None:
    """The commit of a batch is taken out of Spark's checkpoint, as if it had died before it."""
    name = lakequeue.spark.register(spark, "lakequeue_sink")
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source.mkdir()
    (source / "1.json").write_text(
        "".join(json.dumps({"value": f"a{n}"}) + "\n" for n in range(40))
    )

    def run() -> None:
        query = (
            spark.readStream.schema("value STRING")
            .json(str(source))
            .repartition(3)
            .writeStream.format(name)
            .options(root=root.uri, topic="orders", checkpointLocation=str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run()
    (source / "2.json").write_text(
        "".join(json.dumps({"value": f"b{n}"}) + "\n" for n in range(40))
    )
    run()
    forget_the_last_batch(checkpoint)
    commits = checkpoint / "commits"
    before = len(list(commits.iterdir()))
    run()
    assert len(list(commits.iterdir())) > before, "it was run again"
    rows = ordered(root, topic)
    wanted = [f"{c}{n}".encode() for c in "ab" for n in range(40)]
    assert Counter(r["value"] for r in rows) == dict.fromkeys(wanted, 1)
    shutil.rmtree(checkpoint)
    run()
    again = Counter(r["value"] for r in ordered(root, topic, 2))
    assert again == dict.fromkeys(wanted, 2), "without its checkpoint it is another query"


def test_a_write_larger_than_a_batch_is_ordered_in_one_version_piece_by_piece(
    spark: SparkSession, root: QueueRoot, topic: Topic
) -> None:
    """20 tasks; a batch may have 4 kB, so the order job holds the rows of two or so at a time."""
    records, limit = 4_000, 4_000
    frame = spark.range(0, records, 1, 20).selectExpr(
        "concat('k', id % 10) key",
        "concat('v', lpad(id, 8, '0')) value",
        "if(id % 100 = 99, 'again', concat('m', id)) message_id",
    )
    orderer = Orderer(root, 1, max_bytes=limit)
    write(frame, root, topic="orders")
    before = orderer.state.log.version
    assert [batch["rows"] for batch in orderer.drain()] == [records], "one commit, one batch"
    assert orderer.state.log.version == before + 1
    assert len(load_snapshot(root.store, "log").files) > 5, "written piece by piece"
    judge(root)
    rows = ordered(root, topic, 2)
    assert len({r["value"] for r in rows}) == len(rows) == records - records // 100 + 1
    assert len(reject_rows(root)) == records // 100 - 1, "copies are found across pieces"


@pytest.mark.parametrize("column", ["message_id", "value", "key"])
def test_text_that_is_not_utf8_is_refused_with_row_and_column(
    spark: SparkSession, root: QueueRoot, topic: Topic, column: str
) -> None:
    columns = {"value": "'v'", "key": "'k'", "message_id": "concat('m', id)"}
    columns[column] = f"if(id = 2, CAST(X'FFFE' AS STRING), {columns[column]})"
    frame = spark.range(0, 4, 1, 1).selectExpr(
        *(f"{sql} AS {name}" for name, sql in columns.items())
    )
    with pytest.raises(Exception, match=f"row 2 of task 0: {column} is not UTF-8"):
        write(frame, root, topic="orders")
    assert ordered(root, topic) == []
    if column != "message_id":
        write(frame.withColumn(column, frame[column].cast("binary")), root, topic="orders")
        assert b"\xff\xfe" in {row[column] for row in ordered(root, topic, 2)}


def test_values_that_are_not_of_the_schema_go_to_dead_letters_that_are_made(
    spark: SparkSession, root: QueueRoot
) -> None:
    topics = TopicStore(root)
    schema, policy = '{"type": "integer"}', "dead_letter"
    orders = topics.create("orders", partitions=2, value_schema=schema, value_policy=policy)[0]
    frame = spark.sql("SELECT * FROM VALUES ('1', 'a'), ('x', 'b'), ('3', null) AS t(value, key)")
    write(frame, root, topic="orders")
    assert sorted(row["value"] for row in ordered(root, orders)) == [b"1", b"3"]
    topics.refresh()
    [letter] = ordered(root, topics.get("orders.dlq"), 2)
    said = {h["key"]: h["value"].decode() for h in letter["headers"]}
    assert (letter["value"], letter["key"]) == (b"x", b"b")
    assert (said["lakequeue-topic"], said["lakequeue-reason"]) == ("orders", "wrong_value")
