"""Data files and their statistics."""

from __future__ import annotations

import random

import orjson
import pyarrow as pa
import pytest

from lakequeue.errors import CorruptTable
from queue_tables.delta.columns import Column, Table
from queue_tables.delta.store import ObjectStore
from queue_tables.files.parquet import file_stats, read_data_file, write_data_file
from queue_tables.schema.schemas import INBOX, REJECTS, TABLES
from tests.support.data.rows import inbox_rows, rows_of

PARTITION = {"hour": "2013-01-31T07"}
TIMED = Table("timed", "", "", (Column("t", "timestamp", ""), Column("n", "int", "")), stats=("t",))


def test_statistics_round_times_outwards_to_milliseconds() -> None:
    rows = pa.table({"t": pa.array([1_001, 2_001], pa.timestamp("us", tz="UTC"))})
    stats = orjson.loads(file_stats(rows, ["t"]))
    assert stats == {
        "numRecords": 2,
        "minValues": {"t": "1970-01-01T00:00:00.001Z"},
        "maxValues": {"t": "1970-01-01T00:00:00.003Z"},
        "nullCount": {"t": 0},
    }


def test_statistics_of_times_before_1970_are_rounded_outwards_too() -> None:
    rows = pa.table({"t": pa.array([-1, -1_000], pa.timestamp("us", tz="UTC"))})
    stats = orjson.loads(file_stats(rows, ["t"]))
    assert stats["minValues"] == {"t": "1969-12-31T23:59:59.999Z"}
    assert stats["maxValues"] == {"t": "1970-01-01T00:00:00.000Z"}


def test_columns_of_nulls_have_a_null_count_and_no_bounds() -> None:
    rows = pa.table({"a": pa.array([None, None], pa.int64()), "b": ["x", None]})
    stats = orjson.loads(file_stats(rows, ["a", "b"]))
    assert stats["minValues"] == {"b": "x"}
    assert stats["nullCount"] == {"a": 2, "b": 1}


def test_without_declared_columns_only_rows_are_counted() -> None:
    assert orjson.loads(file_stats(pa.table({"a": [1, 2, 3]}), ())) == {"numRecords": 3}


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda t: t.name)
def test_every_declared_table_can_be_written_and_read(table: Table) -> None:
    store = ObjectStore.in_memory()
    rows = rows_of(table, {table.file_arrow.names[0]: [None, None]}, without=table.partition_by)
    partition = dict.fromkeys(table.partition_by, "2013-01-31T07")
    add = write_data_file(store, "t", rows, partition, table)
    assert read_data_file(store, "t", add.path).equals(rows.cast(table.file_arrow))
    assert add.partition_values == partition
    assert add.size == store.size(f"t/{add.path}")


def test_rows_keep_their_order_and_columns_can_be_chosen() -> None:
    store = ObjectStore.in_memory()
    values = [str(i).encode() for i in range(1_000)]
    rows = inbox_rows(values).append_column("stamp", pa.array([1] * 1_000))
    rows = rows.append_column("row", pa.array(range(1_000), pa.int32()))
    add = write_data_file(store, "inbox/a", rows, {"hour": "2013-01-31T07"}, INBOX)
    assert add.path.startswith("hour=2013-01-31T07/part-")
    read = read_data_file(store, "inbox/a", add.path, columns=["value"])
    assert read.column_names == ["value"]
    assert read.column("value").to_pylist() == values


def test_a_damaged_file_is_named() -> None:
    store = ObjectStore.in_memory()
    store.put("t/x.parquet", b"PAR1 not really")
    with pytest.raises(CorruptTable, match=r"data file t/x\.parquet"):
        read_data_file(store, "t", "x.parquet")
    with pytest.raises(FileNotFoundError):
        read_data_file(store, "t", "gone.parquet")


@pytest.mark.parametrize("table", [INBOX, REJECTS], ids=lambda t: t.name)
def test_a_bit_that_flips_is_never_read_as_another_value(table: Table) -> None:
    store = ObjectStore.in_memory()
    values = [f"a value that is long enough to be hit, number {i}".encode() for i in range(300)]
    rows = rows_of(table, {"value": values}, without=table.partition_by)
    whole = store.get(f"t/{write_data_file(store, 't', rows, PARTITION, table).path}")
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    named = 0
    for at in random.Random(1).sample(range(4, len(whole) - footer), 200):
        store.put("t/x", whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        try:
            assert read_data_file(store, "t", "x", ["value"])["value"].to_pylist() == values
        except CorruptTable:
            named += 1
    assert named > 20
