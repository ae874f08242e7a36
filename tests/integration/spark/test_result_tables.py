"""Result tables in Spark: one that it restores, and one that it writes out of a replica."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pytest
from deltalake.exceptions import CommitFailedError
from pyspark.sql import SparkSession

from queue_tables.root import QueueRoot
from tests.support.data.log_builder import LogBuilder
from tests.support.data.results import Result
from tests.support.runs.mirror_process import run_mirror
from tests.support.runs.spark_sink_process import run_sink

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_restore_by_spark_takes_the_mark_back_as_one_by_delta_rs_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    result = Result(tmp_path)
    one = result.write("a", 1)
    result.write("a", 2)
    result.write("b", 30)
    stale = deltalake.DeltaTable(result.uri)
    spark.sql(f"RESTORE TABLE delta.`{result.uri}` TO VERSION AS OF {one}")
    assert (result.done("a"), result.done("b")) == (1, 0)
    with pytest.raises(CommitFailedError, match="Metadata changed"):
        # Whoever has looked before it cannot commit on top of it.
        result.write("a", 3, stale)
    result.write("a", 2)
    assert (result.done("a"), result.done("b")) == (2, 0)


def test_a_stream_of_a_replica_is_written_as_one_of_the_queue(
    spark: SparkSession, root: QueueRoot, log: LogBuilder, tmp_path: Path
) -> None:
    log.append_many(log.topic("orders", 2), {0: ["a", "b"], 1: ["c"]})
    replica, table = str(tmp_path / "replica"), str(tmp_path / "table")
    run_mirror(root, replica)
    run_sink(spark, replica, table, str(tmp_path / "checkpoint"))
    rows = spark.read.format("delta").load(table).collect()
    assert sorted(row.value for row in rows) == ["a", "b", "c"]
