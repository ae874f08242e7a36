"""A log that other engines have rewritten: every way to read it has each record once, in order.

As in a table of an earlier release, which any engine can write. In a guarded one nothing of this
counts (`tests/integration/guard`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from coordination.embedded import EmbeddedZooKeeper
from lakequeue.records import Partition
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from tests.support.data.log_builder import fresh_root
from tests.support.faults.foreign import as_of_earlier_release, run_sql
from tests.support.kinds import one_now
from tests.support.services.consumer_node import NodeProcess, start_node
from tests.support.services.rewritten import (
    GONE,
    Found,
    by_partition,
    expected,
    in_browser,
    in_files,
    in_group,
    queue_of,
)

__all__ = ["start_node"]

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

Rewrite = Callable[[SparkSession, str], None]


def optimized(unit: str) -> Rewrite:
    def run(spark: SparkSession, log: str) -> None:
        spark.conf.set("spark.sql.parquet.outputTimestampType", unit)
        spark.sql(f"OPTIMIZE delta.`{log}`")

    return run


def sql(text: str) -> Rewrite:
    def run(spark: SparkSession, log: str) -> None:
        spark.sql(text.format(t=f"delta.`{log}`"))

    return run


def deleted(*before: str) -> Rewrite:
    some = ", ".join(map(str, sorted(GONE)))

    def run(spark: SparkSession, log: str) -> None:
        for name in before:
            run_sql(spark, name, log, "offset")
        spark.sql(f"DELETE FROM delta.`{log}` WHERE `partition` = 0 AND `offset` IN ({some})")

    return run


def struct_statistics(spark: SparkSession, log: str) -> None:
    where = f"delta.`{log}`"
    spark.sql(
        f"ALTER TABLE {where} SET TBLPROPERTIES ('delta.checkpoint.writeStatsAsStruct' = 'true',"
        " 'delta.checkpoint.writeStatsAsJson' = 'false', 'delta.checkpointInterval' = '1')"
    )
    spark.sql(f"ALTER TABLE {where} ADD COLUMNS (note STRING)")


def z_ordered(_: SparkSession, log: str) -> None:
    DeltaTable(log).optimize.z_order(["message_id"])


def compacted(_: SparkSession, log: str) -> None:
    DeltaTable(log).optimize.compact()


def deleted_by_delta_rs(_: SparkSession, log: str) -> None:
    some = ", ".join(map(str, sorted(GONE)))
    DeltaTable(log).delete(f'"partition" = 0 AND "offset" IN ({some})')


REWRITES: dict[str, tuple[Rewrite, set[int]]] = {
    "OPTIMIZE to INT96": (optimized("INT96"), set()),
    "OPTIMIZE to microseconds": (optimized("TIMESTAMP_MICROS"), set()),
    "DELETE": (deleted(), GONE),
    "DELETE with deletion vectors": (deleted("DELETION VECTORS"), GONE),
    "UPDATE": (sql("UPDATE {t} SET headers = NULL WHERE `offset` % 7 = 0"), set()),
    "UPDATE of a key": (
        sql("UPDATE {t} SET key = CAST('other' AS BINARY) WHERE `offset` % 7 = 0"),
        set(),
    ),
    "ADD COLUMNS": (sql("ALTER TABLE {t} ADD COLUMNS (note STRING)"), set()),
    "statistics as structs": (struct_statistics, set()),
    "INSERT of itself": (sql("INSERT INTO {t} SELECT * FROM {t}"), set()),
    "column mapping": (
        sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"),
        set(),
    ),
    "delta-rs compact": (compacted, set()),
    "delta-rs z_order": (z_ordered, set()),
    "delta-rs delete": (deleted_by_delta_rs, GONE),
}


def source(spark: SparkSession, root: QueueRoot, loss: str) -> dict[str, str]:
    return {"lakequeue.root": root.uri, "subscribe": "orders", "failOnDataLoss": loss}


def in_batch(spark: SparkSession, root: QueueRoot) -> Found:
    frame = spark.read.format("lakequeue").options(**source(spark, root, "false")).load()
    rows = frame.select("partition", "offset", "value").collect()
    assert all(bytes(row.value) == b"v%d" % row.offset for row in rows)
    return by_partition([(row.partition, row.offset) for row in rows])


def in_stream(spark: SparkSession, root: QueueRoot, folder: Path) -> Found:
    frame = spark.readStream.format("lakequeue").options(**source(spark, root, "false"))
    frame = frame.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 50)
    writer = frame.load().select("partition", "offset").writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.option("path", str(folder / "out")).trigger(availableNow=True).start().awaitTermination()
    rows = spark.read.parquet(str(folder / "out")).collect()
    return by_partition(sorted((row.partition, row.offset) for row in rows))


@pytest.mark.parametrize(
    "name", one_now(REWRITES, "OPTIMIZE to INT96", "DELETE with deletion vectors", "column mapping")
)
def test_each_record_comes_once_in_order_whatever_an_engine_has_rewritten(
    spark: SparkSession,
    zookeeper: EmbeddedZooKeeper,
    start_node: Callable[..., NodeProcess],
    tmp_path: Path,
    name: str,
) -> None:
    rewrite, gone = REWRITES[name]
    root = fresh_root(str(tmp_path))
    queue, topic = queue_of(root, zookeeper)
    as_of_earlier_release(root.store, "log")
    rewrite(spark, f"{root.uri}/log")
    wanted = expected(gone)
    assert in_files(root, topic) == wanted
    assert in_batch(spark, root) == wanted
    assert in_stream(spark, root, tmp_path) == wanted
    url = start_node(queue).url
    assert in_browser(url) == wanted
    count = sum(map(len, wanted.values()))
    assert in_group(url, topic, "stream", count) == wanted
    assert in_group(url, topic, "queue", count) == wanted
    if gone:
        with pytest.raises(Exception, match="has no record at 3, 17 to 18, 42, 59") as refused:
            spark.read.format("lakequeue").options(**source(spark, root, "true")).load().count()
        assert "failOnDataLoss" in str(refused.value)
        assert LogReader(root).gaps(topic.topic_id, Partition(0)) == [
            (3, 4), (17, 19), (42, 43), (59, 60),
        ]  # fmt: skip
