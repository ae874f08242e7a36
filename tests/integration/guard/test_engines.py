"""Other engines read every table of the queue, and are refused when they write (decision 0029)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import polars
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from lakequeue.clock import wall_micros
from queue_tables.delta.actions import Protocol
from queue_tables.delta.guard import FEATURE, GUARDED
from queue_tables.delta.table import TableLog, create_table
from queue_tables.files.parquet import write_data_file
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import TABLES
from queue_tables.shards.shards import seal_shard
from queue_tables.upkeep.clean_up import clean_commits, delete_removed, left_behind, vacuum_table
from queue_tables.upkeep.delta_rs import checkpoint_table, trim_table
from tests.support.data.rows import rows_of
from tests.support.faults.foreign import CALLS, SQL, run_sql, take_guard_off
from tests.support.kinds import one_now

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = "2023-11-14T22"
NAMES = sorted(TABLES)
REFUSAL = "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE|DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> QueueRoot:
    """A root with every table of the queue, each with two files."""
    root = QueueRoot.open(str(tmp_path_factory.mktemp("guarded")))
    for name, table in TABLES.items():
        path = path_of(name)
        create_table(root.store, path, table, dict(table.properties))
        log = TableLog(root.store, path).open()
        one = column_of(name)
        for value in ("a", "b"):
            rows = rows_of(table, {one: [value]}, without=table.partition_by)
            hours = {"hour": HOUR} if table.partition_by else {}
            log.commit([write_data_file(root.store, path, rows, hours, table)])
    return root


def path_of(name: str) -> str:
    return f"{name}/node-1" if TABLES[name].sharded else name


def column_of(name: str) -> str:
    return next(c.name for c in TABLES[name].columns if c.kind == "string" and c.name != "hour")


def _files(folder: Path) -> dict[str, bytes]:
    """What belongs to the table. A writer that is refused may leave files that nobody names."""
    log = [f for f in (folder / "_delta_log").glob("*") if f.suffix in {".json", ".parquet"}]
    table = DeltaTable(folder)
    named = [Path(path.removeprefix("file://")) for path in table.file_uris()]
    return {str(f): f.read_bytes() for f in (*log, *named)}


@pytest.fixture
def unchanged(root: QueueRoot, request: pytest.FixtureRequest) -> Iterator[str]:
    """Folder of the table; afterwards each of its files is there and as it was."""
    folder = Path(root.uri) / path_of(request.getfixturevalue("name"))
    before = _files(folder)
    yield str(folder)
    assert _files(folder) == before


@pytest.mark.timeout(400)
@pytest.mark.spark
@pytest.mark.parametrize("name", one_now(NAMES, "log"))
def test_spark_writes_to_no_table(spark: SparkSession, unchanged: str, name: str) -> None:
    for statement in SQL:
        with pytest.raises(Exception, match=REFUSAL) as refused:
            run_sql(spark, statement, unchanged, column_of(name))
        assert FEATURE in str(refused.value), statement


@pytest.mark.timeout(400)
@pytest.mark.spark
@pytest.mark.parametrize("name", NAMES)
def test_spark_dataframes_write_to_no_table(spark: SparkSession, unchanged: str, name: str) -> None:
    frame = spark.read.format("delta").load(unchanged)
    for mode in ("append", "overwrite"):
        with pytest.raises(Exception, match=REFUSAL):
            frame.write.format("delta").mode(mode).save(unchanged)


@pytest.mark.parametrize("name", NAMES)
def test_delta_rs_and_polars_write_to_no_table(unchanged: str, name: str) -> None:
    refused = {}
    for call, run in CALLS.items():
        if call == "delta-rs vacuum":
            continue  # deletes what no version needs, and commits when there was something
        with pytest.raises(DeltaError) as error:
            run(unchanged)
        refused[call] = str(error.value)
    assert {FEATURE in why for why in refused.values()} == {True}, refused


@pytest.mark.timeout(400)
@pytest.mark.spark
@pytest.mark.parametrize("name", one_now(NAMES, "log"))
def test_spark_reads_every_table(
    spark: SparkSession, root: QueueRoot, tmp_path: Path, name: str
) -> None:
    folder, path = f"{root.uri}/{path_of(name)}", path_of(name)
    table = f"delta.`{folder}`"
    versions = TableLog(root.store, path).open().version

    def counts() -> tuple[int, ...]:
        stream = (
            spark.readStream.format("delta")
            .load(folder)
            .writeStream.format("memory")
            .queryName("seen")
            .option("checkpointLocation", str(tmp_path / f"cp-{path}"))
            .trigger(availableNow=True)
            .start()
        )
        stream.awaitTermination()
        streamed = spark.sql("SELECT * FROM seen").count()
        return (
            spark.sql(f"SELECT * FROM {table}").count(),
            spark.sql(f"SELECT * FROM {table} VERSION AS OF {versions - 1}").count(),
            streamed,
        )  # fmt: skip

    assert counts()[:2] == (2, 1)
    assert spark.sql(f"DESCRIBE HISTORY {table}").count() == versions + 1
    [detail] = spark.sql(f"DESCRIBE DETAIL {table}").collect()
    assert detail["tableFeatures"] == [FEATURE]
    copy = f"delta.`{tmp_path}/clone`"
    spark.sql(f"CREATE TABLE {copy} SHALLOW CLONE {table}")
    assert spark.sql(f"SELECT * FROM {copy}").count() == 2
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/own` USING delta AS SELECT * FROM {table}")


@pytest.mark.parametrize("name", NAMES)
def test_delta_rs_duckdb_and_polars_read_every_table(root: QueueRoot, name: str) -> None:
    folder = f"{root.uri}/{path_of(name)}"
    rows = DeltaTable(folder).to_pyarrow_dataset()
    assert rows.count_rows() == 2
    assert duckdb.from_arrow(rows).fetchall().__len__() == 2
    assert polars.read_delta(folder).height == 2
    assert polars.scan_delta(folder, version=0).collect().height == 0


@pytest.mark.parametrize("name", NAMES)
def test_our_own_upkeep_goes_on(tmp_path: Path, name: str) -> None:
    root = QueueRoot.open(str(tmp_path))
    path, table = path_of(name), TABLES[name]
    create_table(root.store, path, table, dict(table.properties))
    log = TableLog(root.store, path).open()
    hours = {"hour": HOUR} if table.partition_by else {}
    rows = [rows_of(table, {column_of(name): [v]}, table.partition_by) for v in ("a", "b")]
    adds = [write_data_file(root.store, path, some, hours, table) for some in rows]
    log.commit(adds)
    log.commit([adds[0].removal(wall_micros() // 1_000)])
    assert checkpoint_table(root, path) == log.version
    assert [*left_behind(root, path).removed] == [adds[0].path]
    assert clean_commits(root, path, 1 << 60) == log.version
    reopened = TableLog(root.store, path).open()
    assert reopened.protocol == GUARDED
    assert list(reopened.files) == [adds[1].path]
    assert vacuum_table(root, path, 0, dry_run=True).files == 1
    assert delete_removed(root, path) == 1
    if name == "group_offsets":
        assert trim_table(root, path) == log.version
    assert polars.read_delta(f"{root.uri}/{path}").height == 1
    if table.sharded:
        seal_shard(root, name, "node-1")  # type: ignore[arg-type]
        assert TableLog(root.store, path).open().protocol == GUARDED


def test_a_root_of_the_last_release_is_guarded_when_it_is_opened(tmp_path: Path) -> None:
    root = QueueRoot.open(str(tmp_path))
    names = [name for name, t in TABLES.items() if not t.sharded and not t.when_needed]
    for name in names:
        take_guard_off(root.store, name)
        assert TableLog(root.store, name).open().protocol == Protocol(1, 2)
    QueueRoot.open(str(tmp_path))
    versions = [TableLog(root.store, name).open().version for name in names]
    assert {TableLog(root.store, name).open().protocol for name in names} == {GUARDED}
    QueueRoot.open(str(tmp_path))
    assert [TableLog(root.store, name).open().version for name in names] == versions


def test_a_handle_of_delta_rs_from_before_the_guard_is_refused(tmp_path: Path) -> None:
    root = QueueRoot.open(str(tmp_path))
    take_guard_off(root.store, "topics")
    early = DeltaTable(f"{root.uri}/topics")
    assert TableLog(root.store, "topics").open().put_guard()
    version = TableLog(root.store, "topics").open().version
    rows = rows_of(TABLES["topics"], {"topic": ["a"]}, ())
    with pytest.raises(DeltaError, match="Protocol changed since last commit"):
        write_deltalake(early, rows, mode="append")
    assert TableLog(root.store, "topics").open().version == version
