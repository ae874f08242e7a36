"""delta-rs and Spark read what we write, and we read what delta-rs leaves behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, write_deltalake
from deltalake.exceptions import DeltaError

from lakequeue.errors import CorruptTable
from lakequeue.records import Stamp
from queue_tables.delta.actions import Remove, Txn, commit_path
from queue_tables.delta.guard import GUARDED
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.delta.store import Store, open_store
from queue_tables.delta.table import TableLog, create_table
from queue_tables.files.parquet import read_data_file, write_data_file
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import GROUP_OFFSETS, LOG, TABLES
from queue_tables.shards.shards import ShardWriter, seal_shard
from tests.support.data.rows import inbox_rows, rows_of
from tests.support.faults.foreign import as_of_earlier_release, take_guard_off

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STAMP = 1_700_000_000_000_000
HOUR = "2023-11-14T22"


def log_rows(first: int, count: int) -> pa.Table:
    """Rows of `log` with every kind of column filled, and some of them null."""
    numbers = range(first, first + count)
    return rows_of(
        LOG,
        {
            "topic": ["orders"] * count,
            "topic_id": ["t1"] * count,
            "partition": [0] * count,
            "offset": list(numbers),
            "key": [None if n % 3 == 0 else f"k{n}".encode() for n in numbers],
            "value": [bytes([n % 256]) * 5 for n in numbers],
            "headers": [None if n % 2 else [{"key": "h", "value": b"v"}] for n in numbers],
            "timestamp": [STAMP + n * 1_001 for n in numbers],
            "ordered_at": [STAMP + n for n in numbers],
            "stamp": [STAMP + n for n in numbers],
        },
        without=("hour",),
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path)


@pytest.fixture
def log(store: Store) -> TableLog:
    """A log of 20 commits of 5 rows each."""
    create_table(store, "log", LOG)
    log = TableLog(store, "log").open()
    for i in range(20):
        add = write_data_file(store, "log", log_rows(i * 5, 5), {"hour": HOUR}, LOG)
        log.commit([add, Txn("order", i), Txn("offset/t1/0", i * 5 + 5)], {"rows": 5})
    return log


def offsets_by_us(store: Store) -> list[int]:
    found: list[int] = []
    for path in load_snapshot(store, "log").files:
        found += read_data_file(store, "log", path, ["offset"]).column("offset").to_pylist()
    return sorted(found)


def offsets_by_delta_rs(tmp_path: Path) -> list[int]:
    rows = DeltaTable(str(tmp_path / "log")).to_pyarrow_table(columns=["offset"])
    found: list[int] = rows.column("offset").to_pylist()
    return sorted(found)


def test_delta_rs_reads_every_column_as_it_was_written(tmp_path: Path, log: TableLog) -> None:
    table = DeltaTable(str(tmp_path / "log"))
    assert table.version() == log.version == 20
    read = table.to_pyarrow_table().sort_by("offset")
    expected = log_rows(0, 100)
    for name in expected.column_names:
        assert read.column(name).to_pylist() == expected.column(name).to_pylist(), name
    assert set(read.column("hour").to_pylist()) == {HOUR}
    assert table.transaction_version("offset/t1/0") == 100


def test_delta_rs_skips_files_by_our_statistics(tmp_path: Path, log: TableLog) -> None:
    actions = pa.table(DeltaTable(str(tmp_path / "log")).get_add_actions(flatten=True))
    assert actions.column("num_records").to_pylist() == [5] * 20
    assert sorted(actions.column("min.offset").to_pylist()) == list(range(0, 100, 5))
    assert sorted(actions.column("max.offset").to_pylist()) == list(range(4, 100, 5))
    assert set(actions.column("null_count.offset").to_pylist()) == {0}


def test_a_checkpoint_of_delta_rs_stands_for_the_commits_before_it(
    tmp_path: Path, store: Store, log: TableLog
) -> None:
    before = TableLog(store, "log").open()
    DeltaTable(str(tmp_path / "log")).create_checkpoint()
    for version in range(20):
        store.delete(commit_path("log", version))
    log.commit([Txn("order", 99)])
    after = TableLog(store, "log").open()
    assert after.version == 21
    assert dict(after.files) == dict(before.files)
    assert after.txns == {"order": 99, "offset/t1/0": 100}
    assert after.metadata == before.metadata
    assert offsets_by_us(store) == offsets_by_delta_rs(tmp_path) == list(range(100))
    # Shards do not keep their files in memory, and need the rest of the checkpoint all the same.
    narrow = TableLog(store, "log", keep_files=False).open()
    assert (narrow.files, narrow.txns) == ({}, after.txns)


def test_a_half_written_checkpoint_is_skipped_while_the_commits_are_there(
    tmp_path: Path, store: Store, log: TableLog
) -> None:
    DeltaTable(str(tmp_path / "log")).create_checkpoint()
    path = tmp_path / "log/_delta_log/00000000000000000020.checkpoint.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    assert TableLog(store, "log").open().version == 20
    assert offsets_by_us(store) == list(range(100))


def test_a_checkpoint_of_several_parts_is_read_whole(
    tmp_path: Path, store: Store, log: TableLog
) -> None:
    """delta-rs writes one part; Spark splits large ones. Split here, along the rows."""
    DeltaTable(str(tmp_path / "log")).create_checkpoint()
    folder = tmp_path / "log/_delta_log"
    whole = folder / f"{20:020d}.checkpoint.parquet"
    rows = pq.read_table(whole)
    third = rows.num_rows // 3
    cuts = [(0, third), (third, third), (2 * third, rows.num_rows)]
    for i, (start, length) in enumerate(cuts, 1):
        part = folder / f"{20:020d}.checkpoint.{i:010d}.{3:010d}.parquet"
        pq.write_table(rows.slice(start, length), part)
    whole.unlink()
    for version in range(20):
        store.delete(commit_path("log", version))
    assert len(TableLog(store, "log").open().files) == 20
    (folder / f"{20:020d}.checkpoint.{2:010d}.{3:010d}.parquet").unlink()
    with pytest.raises(CorruptTable):
        TableLog(store, "log").open()


def test_compaction_by_delta_rs_is_followed_and_its_commit_appends_nothing(
    tmp_path: Path, store: Store, log: TableLog
) -> None:
    as_of_earlier_release(store, "log")
    log.open()
    DeltaTable(str(tmp_path / "log")).optimize.compact()
    commits = log.refresh()
    assert [c.version for c in commits] == [21]
    assert commits[0].foreign
    assert not commits[0].appends
    assert len(log.files) < 20
    assert dict(log.files) == dict(TableLog(store, "log").open().files)
    assert offsets_by_us(store) == offsets_by_delta_rs(tmp_path) == list(range(100))


def test_a_stale_compaction_of_delta_rs_is_refused_by_the_guard_that_our_append_brings(
    tmp_path: Path, store: Store, log: TableLog
) -> None:
    take_guard_off(store, "log")
    log.refresh()
    stale = DeltaTable(str(tmp_path / "log"))
    add = write_data_file(store, "log", log_rows(100, 5), {"hour": HOUR}, LOG)
    log.commit([add])
    assert log.protocol == GUARDED
    with pytest.raises(DeltaError, match="Protocol changed"):
        stale.optimize.compact()
    assert log.refresh() == []
    assert offsets_by_us(store) == offsets_by_delta_rs(tmp_path) == list(range(105))


def test_a_log_clean_up_by_delta_rs_leaves_a_table_we_can_open(
    tmp_path: Path, store: Store, log: TableLog
) -> None:
    table = DeltaTable(str(tmp_path / "log"))
    table.create_checkpoint()
    table.cleanup_metadata()
    assert offsets_by_us(store) == list(range(100))


def test_an_overwriting_commit_leaves_only_its_own_files(tmp_path: Path, store: Store) -> None:
    create_table(store, "g", GROUP_OFFSETS)
    log = TableLog(store, "g").open()
    for i in range(3):
        rows = rows_of(GROUP_OFFSETS, {"group": ["a", "b"], "epoch": [i, i]}, without=())
        add = write_data_file(store, "g", rows, {}, GROUP_OFFSETS)
        removed = [Remove(f.path, 1, True, f.partition_values, f.size) for f in log.files.values()]
        log.commit([*removed, add])
    read = DeltaTable(str(tmp_path / "g")).to_pyarrow_table(columns=["group", "epoch"])
    assert read.to_pylist() == [{"group": "a", "epoch": 2}, {"group": "b", "epoch": 2}]


def test_paths_and_partitions_with_unusual_characters_agree(tmp_path: Path, store: Store) -> None:
    create_table(store, "log", LOG)
    log = TableLog(store, "log").open()
    odd = "a b/c%d:e"
    log.commit([write_data_file(store, "log", log_rows(0, 2), {"hour": odd}, LOG)])
    read = DeltaTable(str(tmp_path / "log")).to_pyarrow_table(columns=["hour", "offset"])
    assert read.column("hour").to_pylist() == [odd] * 2
    assert offsets_by_us(store) == [0, 1]


def test_we_read_what_delta_rs_wrote(tmp_path: Path, store: Store) -> None:
    rows = pa.table({"hour": ["a b"], "n": [1]})
    properties = CommitProperties(app_transactions=[], custom_metadata={"by": "somebody"})
    for _ in range(3):
        write_deltalake(
            tmp_path / "t",
            rows,
            partition_by=["hour"],
            mode="append",
            commit_properties=properties,
            post_commithook_properties=PostCommitHookProperties(create_checkpoint=False),
        )
    files = TableLog(store, "t").open().files
    read = [read_data_file(store, "t", path).column("n").to_pylist() for path in files]
    assert read == [[1]] * 3
    assert {f.partition_values["hour"] for f in files.values()} == {"a b"}


def test_delta_rs_handles_and_ours_take_turns(tmp_path: Path, store: Store) -> None:
    """Both create a commit only where there is none, so neither overwrites the other."""
    create_table(store, "t", LOG)
    log = TableLog(store, "t").open()
    for i in range(5):
        log.refresh()
        log.commit([write_data_file(store, "t", log_rows(i * 2, 1), {"hour": HOUR}, LOG)])
        row = log_rows(i * 2 + 1, 1).append_column("hour", pa.array([HOUR]))
        take_guard_off(store, "t")
        other = DeltaTable(str(tmp_path / "t"))
        write_deltalake(other, row.select(LOG.arrow.names), mode="append")
    log.refresh()
    assert log.version == 15
    # What delta-rs appended stands in the table, and does not count for the queue.
    assert len(log.files) == 5
    read = DeltaTable(str(tmp_path / "t")).to_pyarrow_table(columns=["offset"])
    assert sorted(read.column("offset").to_pylist()) == list(range(10))


def test_what_a_dead_process_left_in_the_log_disturbs_nobody(
    tmp_path: Path, store: Store, log: TableLog
) -> None:
    left = tmp_path / f"log/_delta_log/.{21:020d}.json.999-ab.tmp"
    left.write_bytes(b'{"add":')
    (tmp_path / f"log/hour={HOUR}/part-uncommitted.zstd.parquet").write_bytes(b"PAR1")
    assert TableLog(store, "log").open().version == 20
    assert offsets_by_delta_rs(tmp_path) == list(range(100))
    log.commit([Txn("order", 100)])
    assert DeltaTable(str(tmp_path / "log")).version() == 21


def test_a_sealed_shard_reads_the_same(tmp_path: Path) -> None:
    root = QueueRoot.open(str(tmp_path))
    writer = ShardWriter.create(root, "inbox", "n")
    writer.append(inbox_rows([b"a", b"b"]), Stamp(STAMP))
    seal_shard(root, "inbox", writer.name)
    table = DeltaTable(str(tmp_path / writer.path))
    assert table.to_pyarrow_table(columns=["value"]).column("value").to_pylist() == [b"a", b"b"]
    assert table.metadata().configuration["lakequeue.sealed"] == "true"


@pytest.mark.parametrize("scheme", ["file://", ""])
def test_delta_rs_does_not_find_a_file_of_another_table_by_its_absolute_path(
    tmp_path: Path, store: Store, log: TableLog, scheme: str
) -> None:
    """Why forks and replicas copy files. If this fails they could share them: see mirror.md."""
    create_table(store, "fork", LOG)
    fork = TableLog(store, "fork").open()
    (path, shared) = next(iter(log.files.items()))
    assert (tmp_path / "log" / path).exists()
    fork.commit([replace(shared, path=f"{scheme}{tmp_path}/log/{path}")])
    with pytest.raises(FileNotFoundError, match="not found"):
        DeltaTable(str(tmp_path / "fork")).to_pyarrow_table()


@pytest.mark.spark
@pytest.mark.timeout(600)  # the first one starts the session
def test_spark_reads_every_column_as_it_was_written(
    spark: SparkSession, tmp_path: Path, log: TableLog
) -> None:
    frame = spark.read.format("delta").load(str(tmp_path / "log")).orderBy("offset")
    expected = log_rows(0, 100).to_pylist()
    rows = frame.collect()
    assert [r["offset"] for r in rows] == list(range(100))
    for row, wanted in zip(rows, expected, strict=True):
        assert row["hour"] == HOUR
        assert row["topic"] == wanted["topic"]
        assert (row["key"] and bytes(row["key"])) == wanted["key"]
        assert bytes(row["value"]) == wanted["value"]
        headers = row["headers"] and [(h["key"], bytes(h["value"])) for h in row["headers"]]
        assert headers == (wanted["headers"] and [("h", b"v")])
        assert row["timestamp"].timestamp() == pytest.approx(wanted["timestamp"].timestamp())


@pytest.mark.spark
@pytest.mark.timeout(600)  # the first one starts the session
def test_spark_agrees_on_filters_by_statistics_and_after_a_checkpoint(
    spark: SparkSession, tmp_path: Path, store: Store, log: TableLog
) -> None:
    path = str(tmp_path / "log")
    wanted = "offset >= 42 AND topic = 'orders' AND timestamp <= timestamp_micros({})"
    last = STAMP + 77 * 1_001
    found = spark.read.format("delta").load(path).where(wanted.format(last)).count()
    assert found == 77 - 42 + 1
    DeltaTable(path).create_checkpoint()
    for version in range(20):
        store.delete(commit_path("log", version))
    log.commit([Txn("order", 99)])
    assert spark.read.format("delta").load(path).count() == 100


@pytest.mark.spark
@pytest.mark.timeout(600)  # the first one starts the session
def test_spark_sees_the_declared_schema_of_every_table(
    spark: SparkSession, tmp_path: Path, store: Store
) -> None:
    from pyspark.sql.types import StructType

    for name, table in TABLES.items():
        create_table(store, name, table)
        frame = spark.read.format("delta").load(str(tmp_path / name))
        shown = ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in frame.schema.fields)
        declared = StructType.fromDDL(table.spark_ddl)
        assert isinstance(declared, StructType)
        for field in declared.fields:
            field.metadata = {"comment": table.meanings[field.name]}
        assert frame.schema == declared, shown
        assert frame.count() == 0
