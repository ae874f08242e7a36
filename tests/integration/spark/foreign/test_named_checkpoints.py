"""Checkpoints of version 2, with names of their own and sidecars, as Spark writes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakequeue.errors import CorruptTable
from queue_tables.delta.actions import commit_path
from queue_tables.delta.guard import GUARDED
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import commit_versions
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import LOG
from queue_tables.upkeep.repair import repair_table
from tests.support.data.log_builder import LogBuilder
from tests.support.faults.foreign import as_of_earlier_release
from tests.support.services.rewritten import RECORDS, expected, in_files

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_checkpoint_that_has_its_own_name_stands_for_the_commits_before_it(
    spark: SparkSession, root: QueueRoot, log: LogBuilder, form: str
) -> None:
    topic = log.topic("orders", partitions=2)
    for n in range(12):
        some = [f"v{n * 5 + i}" for i in range(5)]
        log.append_many(topic, {0: some, 1: some})
    as_of_earlier_release(root.store, "log")
    table = f"delta.`{root.uri}/log`"
    spark.conf.set("spark.databricks.delta.checkpointV2.topLevelFileFormat", form)
    spark.sql(
        f"ALTER TABLE {table} SET TBLPROPERTIES"
        " ('delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '1')"
    )
    spark.sql(f"COMMENT ON TABLE {table} IS 'checkpoint'")
    before = TableLog(root.store, "log").open()
    folder = Path(root.uri) / "log" / "_delta_log"
    [named] = folder.glob(f"*{before.version:020d}.checkpoint.*-*-*-*-*.{form}")
    assert list((folder / "_sidecars").iterdir())
    for older in folder.glob("*.checkpoint.*"):
        if older != named:
            older.unlink()
    for version in commit_versions(root.store, "log"):
        if version < before.version:
            root.store.delete(commit_path("log", version))

    found = TableLog(root.store, "log").open()
    # A checkpoint has no changes of data.
    assert {p: replace(add, data_change=True) for p, add in found.files.items()} == before.files
    assert dict(found.txns) == dict(before.txns)
    assert in_files(root, topic) == expected(set())

    # The queue goes on behind it. Spark needs the feature as long as that checkpoint stands, and
    # delta-rs' datasets do not know it: a repair writes another checkpoint, and everybody reads.
    LogBuilder(root).append(topic, ["more"])
    rows = 2 * RECORDS + 1
    assert spark.read.format("delta").load(f"{root.uri}/log").count() == rows
    assert repair_table(root, "log", LOG, execute=True).lost == []
    assert TableLog(root.store, "log").open().protocol == GUARDED
    assert spark.read.format("delta").load(f"{root.uri}/log").count() == rows
    assert DeltaTable(f"{root.uri}/log").to_pyarrow_dataset().count_rows() == rows


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_a_sidecar_that_is_gone_is_named_as_what_it_is(
    spark: SparkSession, root: QueueRoot, log: LogBuilder, form: str
) -> None:
    log.append(log.topic("orders"), ["v"])
    as_of_earlier_release(root.store, "log")
    table = f"delta.`{root.uri}/log`"
    spark.conf.set("spark.databricks.delta.checkpointV2.topLevelFileFormat", form)
    spark.sql(
        f"ALTER TABLE {table} SET TBLPROPERTIES"
        " ('delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '1')"
    )
    spark.sql(f"COMMENT ON TABLE {table} IS 'checkpoint'")
    newest = TableLog(root.store, "log").open()
    for sidecar in (Path(root.uri) / "log" / "_delta_log" / "_sidecars").iterdir():
        sidecar.unlink()
    # As long as the commits are there they stand for themselves.
    assert TableLog(root.store, "log").open().files.keys() == newest.files.keys()
    for version in commit_versions(root.store, "log"):
        if version < newest.version:
            root.store.delete(commit_path("log", version))
    with pytest.raises(CorruptTable, match="commits of the Delta log are missing"):
        TableLog(root.store, "log").open()
