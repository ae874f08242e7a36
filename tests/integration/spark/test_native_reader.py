"""Large scans that Spark does itself have the rows of the source; all else is the source's."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

import lakequeue.spark
from lakequeue.records import Format
from pyspark_lakequeue.session import native_reader
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from tests.support.data.log_builder import LogBuilder

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

MS = 1_700_000_000_000
ORDER = ["topic", "partition", "offset"]
LATE = {"startingOffsetsByTimestampStrategy": "latest"}
NEWEST = '{"orders":{"0":-1,"1":-1}}'
THE_END, SECOND = '{"orders":{"0":3,"1":0}}', '{"orders":{"0":1,"1":0}}'


@pytest.fixture(scope="module")
def registered(spark: SparkSession) -> Iterator[SparkSession]:
    """A session of its own on the same context: what is registered here holds here alone.

    The small logs of these tests are large ones to it.
    """
    session = spark.newSession()
    lakequeue.spark.register(session)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native_reader, "_LEAST_BYTES", 0)
        yield session


@pytest.fixture(scope="module")
def plain(spark: SparkSession) -> SparkSession:
    """One that nobody has registered, as other files have the shared one."""
    return spark.newSession()


@pytest.fixture
def log(root: QueueRoot) -> LogBuilder:
    return LogBuilder(root)


def load(spark: SparkSession, root: QueueRoot, options: Mapping[str, str]) -> DataFrame:
    return spark.read.format("lakequeue").options(root=root.uri, **options).load()


def fill(log: LogBuilder) -> None:
    orders, few = log.topic("orders", 3), log.topic("few")
    for n in range(6):
        values: dict[int, Sequence[bytes | str]] = {0: [f"a{n}" * 50] * 9, 1: [f"b{n}" * 50] * 2}
        log.append_many(orders, values, timestamp=(MS + n) * 1_000)
    log.append(
        orders, ["h"], 1, headers=[[{"key": "h", "value": b"v"}]], timestamp=(MS + 9) * 1_000
    )
    log.append(few, ["x"])


NATIVE = (
    {"subscribe": "orders"},
    {"subscribe": "orders", "includeHeaders": "true"},
    {"subscribePattern": "or.*|few", "columns": "value,timestampType"},
    {"assign": '{"orders":[0,2]}'},
    {"subscribe": "orders", "startingOffsets": '{"orders":{"0":10,"1":-2,"2":0}}'},
    {"subscribe": "orders", "endingOffsets": '{"orders":{"0":50,"1":-1,"2":0}}'},
    {"subscribe": "orders", "startingTimestamp": str(MS + 2)} | LATE,
    {"subscribe": "orders", "endingTimestamp": str(MS + 4)},
)
SOURCE = (
    {"subscribe": "few"},
    {"subscribe": "orders", "minPartitions": "4"},
    {"subscribe": "orders", "maxRecordsPerPartition": "9"},
    {"assign": '{"orders":[1]}'},
    {"subscribe": "orders", "startingTimestamp": str(MS + 5)} | LATE,
    {"subscribe": "orders,few", "asOfTimestamp": str(MS * 2)},
)


def test_what_spark_reads_itself_are_the_rows_and_the_schema_of_the_source(
    plain: SparkSession, registered: SparkSession, root: QueueRoot, log: LogBuilder
) -> None:
    fill(log)
    for options in NATIVE:
        expected, frame = load(plain, root, options), load(registered, root, options)
        assert frame.inputFiles(), f"{options}: Spark does not read it itself"
        assert not expected.inputFiles()
        assert frame.schema == expected.schema
        order = [name for name in ORDER if name in frame.columns] or frame.columns
        assert frame.orderBy(order).collect() == expected.orderBy(order).collect(), options
    for options in SOURCE:
        assert not load(registered, root, options).inputFiles(), f"{options}: too much is read"


def test_a_frame_has_what_is_there_when_it_is_used(
    registered: SparkSession, root: QueueRoot, log: LogBuilder
) -> None:
    topic = log.topic("orders", 2)
    log.append_many(topic, {0: ["v"] * 3})
    every = load(registered, root, {"subscribe": "orders"})
    later = load(registered, root, {"subscribe": "orders", "startingOffsets": SECOND})
    until = load(registered, root, {"subscribe": "orders", "endingOffsets": THE_END})
    newest = load(registered, root, {"subscribe": "orders", "endingOffsets": NEWEST})
    ahead = load(registered, root, {"subscribe": "orders", "endingTimestamp": str(2**42)})
    TopicStore(root).alter("orders", partitions=3)
    grown = TopicStore(root).get("orders")
    log.append_many(grown, {0: ["w"], 1: ["w"], 2: ["w"]})
    assert [frame.count() for frame in (every, later, until)] == [6, 5, 3]
    assert newest.count() == 5, "of the partitions that it names"
    assert ahead.count() == 6


def test_a_task_has_each_partition_in_order(
    registered: SparkSession, root: QueueRoot, log: LogBuilder
) -> None:
    topic = log.topic("orders", 2)
    for n in range(6):  # Spark begins with the largest file
        log.append_many(topic, {0: ["v" * 99] * (n + 1), 1: ["w"]})
    frame = load(registered, root, {"subscribe": "orders", "columns": "partition,offset"})
    tasks = frame.rdd.glom().collect()
    assert sum(map(len, tasks)) == 27
    for task in tasks:
        for partition in range(2):
            offsets = [row.offset for row in task if row.partition == partition]
            assert offsets == sorted(offsets)


def test_a_cached_frame_stays_as_it_was_and_a_new_one_has_what_came(
    registered: SparkSession, root: QueueRoot, log: LogBuilder
) -> None:
    topic = log.topic("orders")
    log.append(topic, ["v"] * 3)
    cached = load(registered, root, {"subscribe": "orders"}).cache()
    assert cached.count() == 3
    log.append(topic, ["w"])
    assert load(registered, root, {"subscribe": "orders"}).count() == 4
    assert cached.count() == 3
    cached.unpersist()


def test_what_is_lost_and_may_be_is_warned_of(
    registered: SparkSession, root: QueueRoot, log: LogBuilder
) -> None:
    fill(log)
    beyond = {"startingOffsets": '{"orders":{"0":0,"1":0,"2":7}}', "failOnDataLoss": "false"}
    with pytest.warns(UserWarning, match="orders/2 has offsets 0 to 0"):
        frame = load(registered, root, {"subscribe": "orders"} | beyond)
    assert frame.inputFiles()
    assert frame.count() == 67


def test_a_damaged_file_is_refused(
    registered: SparkSession, root: QueueRoot, log: LogBuilder
) -> None:
    noise = [random.Random(n).randbytes(2_000) for n in range(200)]
    log.append(log.topic("orders"), noise, fmt=Format.BYTES)
    assert load(registered, root, {"subscribe": "orders"}).where("length(value)>9").count() == 200
    (file,) = Path(root.uri.removeprefix("file://"), "log").glob("hour=*/*.parquet")
    with file.open("r+b") as damaged:
        damaged.seek(file.stat().st_size // 2)
        damaged.write(b"damaged")
    with pytest.raises(Exception, match="FAILED_READ_FILE"):
        load(registered, root, {"subscribe": "orders"}).where("length(value)>9").count()


def test_what_is_refused_is_refused_as_by_the_source(
    plain: SparkSession, registered: SparkSession, root: QueueRoot, log: LogBuilder
) -> None:
    fill(log)
    for options in (
        {"subscribe": "orders", "startingOffset": "earliest"},
        {"subscribe": "nobody"},
        {"subscribe": "orders", "startingOffsets": '{"orders":{"0":99,"1":0,"2":0}}'},
    ):
        said = []
        for session in (plain, registered):
            with pytest.raises(AnalysisException) as refused:
                load(session, root, options).count()
            said.append(str(refused.value).splitlines()[-1])
        assert said[0] == said[1], options


def test_what_is_not_worth_it_is_the_sources(
    registered: SparkSession, root: QueueRoot, log: LogBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log)
    size = sum(p.stat().st_size for p in Path(root.uri, "log").glob("hour=*/*.parquet"))
    monkeypatch.setattr(native_reader, "_LEAST_BYTES", size)
    whole, part = {"subscribe": "orders,few"}, {"subscribe": "orders"}
    assert load(registered, root, whole).inputFiles()
    assert not load(registered, root, part).inputFiles()
    null: dict[str, str | None] = {"root": root.uri, "subscribe": "orders,few", "columns": None}
    with pytest.raises(Exception, match="NullPointerException"):
        registered.read.format("lakequeue").options(**null).load()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(registered, root, whole | {"kafka.x": "1"}).count() == 68


def test_who_else_has_replaced_the_reader_of_sessions_is_not_undone(
    plain: SparkSession, registered: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkSession, "read", property(lambda session: (session, "another")))
    session = plain.newSession()
    lakequeue.spark.register(session)
    assert isinstance(session.read, DataFrameReader)
    found: object = plain.read
    assert found == (plain, "another")


def test_other_formats_and_other_sessions_are_read_as_ever(
    plain: SparkSession, registered: SparkSession, root: QueueRoot, log: LogBuilder
) -> None:
    fill(log)
    kept = registered.read.format("delta").load(f"{root.uri}/log")
    assert registered.read.load(f"{root.uri}/log", format="delta", versionAsOf=0).count() == 0
    assert kept.count() == 68
    assert not plain.read.format("lakequeue").load(root=root.uri, subscribe="orders").inputFiles()
    declared = registered.read.schema("value BINARY").format("lakequeue")
    assert (
        not declared.options(root=root.uri, subscribe="orders", columns="value").load().inputFiles()
    )
