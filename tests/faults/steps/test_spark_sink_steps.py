"""A query with `DeltaSink` is killed at every step, and started on any checkpoint: each once."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import deltalake
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from lakequeue.results.declared import partition_mark
from lakequeue.spark import DeltaSink
from lakequeue.steps import Step
from queue_tables.root import QueueRoot
from queue_tables.schema.topic_rules import Topic
from queue_tables.topics import TopicStore
from tests.support.data.log_builder import LogBuilder
from tests.support.runs.spark_sink_process import run_sink, sink_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.faults, pytest.mark.timeout(400)]
PARTITIONS = 2


class World:
    """A queue, and a table that a query fills."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = QueueRoot.open(str(folder / "queue"))
        self.log = LogBuilder(self.root)
        self.topic: Topic = self.log.topic("orders", partitions=PARTITIONS)
        self.table, self.checkpoint = folder / "table", folder / "checkpoint"
        self.sent = 0

    def send(self, count: int) -> None:
        for _ in range(count):
            self.log.append(self.topic, [f"v{self.sent}"], partition=self.sent % PARTITIONS)
            self.sent += 1

    def run(self, spark: SparkSession) -> None:
        """Run the query to its end, in this process."""
        run_sink(spark, self.root.uri, str(self.table), str(self.checkpoint))

    def killed(self, step: str) -> None:
        """Run it in a process of its own that dies at a step."""
        work = self.folder / "work"
        work.mkdir()
        command = [
            *(sys.executable, "-m", "tests.support.runs.spark_sink_process"),
            *("--root", self.root.uri, "--table", str(self.table)),
            *("--checkpoint", str(self.checkpoint), "--work", str(work), "--crash-at", step),
        ]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=200)
        assert done.returncode == -signal.SIGKILL, done.stderr[-4_000:]

    def written(self) -> list[str]:
        table = deltalake.DeltaTable(str(self.table)).to_pyarrow_table()
        return sorted(table.column("value").to_pylist(), key=lambda value: int(value[1:]))

    def all_once(self) -> bool:
        return self.written() == [f"v{n}" for n in range(self.sent)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


CHECKPOINTS = {Step.EFFECT_TAKEN: ["same"], Step.EFFECT_COMMITTED: ["same", "empty", "old"]}


@pytest.mark.parametrize("step", CHECKPOINTS)
def test_killed_at_a_step_and_started_on_any_checkpoint_each_record_is_there_once(
    spark: SparkSession, world: World, step: Step
) -> None:
    world.send(2)
    world.run(spark)
    old = world.folder / "old"
    shutil.copytree(world.checkpoint, old)
    world.send(4)
    world.killed(f"{step.value}:2")
    world.send(1)
    table, same = world.folder / "killed-table", world.folder / "same"
    shutil.copytree(world.table, table)
    shutil.copytree(world.checkpoint, same)
    for name in CHECKPOINTS[step]:
        shutil.rmtree(world.table)
        shutil.rmtree(world.checkpoint)
        shutil.copytree(table, world.table)
        if name != "empty":
            shutil.copytree(world.folder / name, world.checkpoint)
        world.run(spark)
        assert world.written() == [f"v{n}" for n in range(world.sent)], name


def test_of_two_queries_of_a_group_one_writes_and_the_other_goes_on_when_started_again(
    spark: SparkSession, world: World
) -> None:
    world.send(4)
    late = sink_of(world.root.uri, str(world.table))
    run_sink(spark, world.root.uri, str(world.table), str(world.checkpoint), late)
    world.send(2)
    # It has not seen this, as one that was frozen has not.
    run_sink(spark, world.root.uri, str(world.table), str(world.folder / "other"))
    world.send(2)
    with pytest.raises(StreamingQueryException, match="another query of group report"):
        run_sink(spark, world.root.uri, str(world.table), str(world.checkpoint), late)
    run_sink(spark, world.root.uri, str(world.table), str(world.checkpoint), late)
    assert world.written() == [f"v{n}" for n in range(world.sent)]


def test_a_table_that_delta_rs_writes_for_the_group_is_refused(
    spark: SparkSession, world: World
) -> None:
    world.send(2)
    world.run(spark)
    table = deltalake.DeltaTable(str(world.table))
    before = table.version()
    mark = partition_mark("report", world.topic.topic_id, 0, 2)
    metadata = deltalake.CommitProperties(custom_metadata={"userMetadata": mark})
    table.create_write_transaction([], "append", table.schema(), commit_properties=metadata)
    world.send(2)
    with pytest.raises(StreamingQueryException, match=r"has written .* by Consumer\.transaction"):
        world.run(spark)
    spark.sql(f"RESTORE TABLE delta.`{world.table}` TO VERSION AS OF {before}")
    world.run(spark)
    assert world.all_once()


def test_a_table_that_was_restored_is_behind_and_says_so(spark: SparkSession, world: World) -> None:
    world.send(4)
    world.run(spark)
    world.send(2)
    world.run(spark)
    spark.sql(f"RESTORE TABLE delta.`{world.table}` TO VERSION AS OF 1")
    world.send(2)
    with pytest.raises(StreamingQueryException, match="up to offset 2, and the batch begins at 3"):
        world.run(spark)
    shutil.rmtree(world.checkpoint)
    world.run(spark)
    assert world.written() == [f"v{n}" for n in range(world.sent)]


def test_a_query_that_runs_on_notices_that_its_table_was_restored(
    spark: SparkSession, world: World
) -> None:
    sink = sink_of(world.root.uri, str(world.table))

    def run() -> None:
        run_sink(spark, world.root.uri, str(world.table), str(world.checkpoint), sink)

    world.send(4)
    run()
    then = deltalake.DeltaTable(str(world.table)).history(1)[0]
    world.send(2)
    run()
    at = datetime.fromtimestamp(then["timestamp"] / 1_000, UTC).isoformat(sep=" ")
    spark.sql(f"RESTORE TABLE delta.`{world.table}` TO TIMESTAMP AS OF '{at}'")
    world.send(2)
    with pytest.raises(StreamingQueryException, match="restored the result table to a time"):
        run()
    spark.sql(f"RESTORE TABLE delta.`{world.table}` TO VERSION AS OF {then['version']}")
    with pytest.raises(StreamingQueryException, match="up to offset 2, and the batch begins at 3"):
        run()
    assert world.written() == ["v0", "v1", "v2", "v3"]


def test_a_restore_while_a_batch_is_written_is_an_error_until_it_is_restored_again(
    spark: SparkSession, world: World
) -> None:
    world.send(4)
    world.run(spark)
    world.send(2)

    def restored_meanwhile(frame: DataFrame) -> DataFrame:
        # The sink has looked at the table, and writes what comes of this.
        spark.sql(f"RESTORE TABLE delta.`{world.table}` TO VERSION AS OF 0")
        return frame.selectExpr("partition", "offset", "cast(value as string) value")

    sink = DeltaSink(world.root.uri, str(world.table), "report", restored_meanwhile)
    with pytest.raises(StreamingQueryException, match="while a batch was being written"):
        run_sink(spark, world.root.uri, str(world.table), str(world.checkpoint), sink)
    # Also for whoever finds it there.
    with pytest.raises(StreamingQueryException, match="while a batch was being written"):
        world.run(spark)
    spark.sql(f"RESTORE TABLE delta.`{world.table}` TO VERSION AS OF 0")
    shutil.rmtree(world.checkpoint)
    world.run(spark)
    assert world.all_once()


def test_a_topic_that_was_created_again_begins_anew(spark: SparkSession, world: World) -> None:
    world.send(4)
    world.run(spark)
    topics = TopicStore(world.root)
    topics.delete("orders")
    world.topic = topics.create("orders", partitions=PARTITIONS)[0]
    shutil.rmtree(world.checkpoint)
    world.send(2)
    world.run(spark)
    assert world.written() == [f"v{n}" for n in range(world.sent)]
