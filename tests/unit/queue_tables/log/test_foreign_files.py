"""The log in whatever files another engine makes of it: the same records, once, in order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakequeue.errors import CorruptTable
from lakequeue.records import Offset, Partition, TopicId
from queue_tables.delta.actions import Add, Remove, Txn
from queue_tables.delta.store import ObjectStore
from queue_tables.delta.table import TableLog, create_table
from queue_tables.files.parquet import file_stats, read_data_file
from queue_tables.files.physical import as_declared
from queue_tables.log.reader import LogReader
from queue_tables.schema.schemas import LOG
from tests.support.data.rows import rows_of
from tests.support.examples import examples

START = 1_700_000_000_000_000
HOUR = "2023-11-14T22"
_names = itertools.count()


def record(topic_id: str, partition: int, offset: int, value: str = "v") -> dict[str, Any]:
    return {
        "topic": f"name-of-{topic_id}",
        "topic_id": topic_id,
        "partition": partition,
        "offset": offset,
        "key": b"k%d" % offset if offset % 3 else None,
        "value": f"{value} {topic_id}/{partition}@{offset}".encode(),
        "headers": [[], None, [{"key": "h", "value": b"x"}]][offset % 3],
        "timestamp": START + offset * 1_000,
        "ordered_at": START + offset * 1_000,
        "message_id": f"m{offset}" if offset % 2 else None,
    }


def rows(records: Sequence[dict[str, Any]]) -> pa.Table:
    names = records[0]
    return rows_of(LOG, {n: [r[n] for r in records] for n in names}, without=("hour",))


def as_spark(table: pa.Table) -> pa.Table:
    """Times as INT96 come back without a zone; there is a column that nobody declared."""
    return table.append_column("note", pa.array(["n"] * table.num_rows))


def as_delta_rs(table: pa.Table) -> pa.Table:
    """Views, also within lists; columns in another order."""
    for n, field in enumerate(table.schema):
        if field.type == pa.string():
            table = table.set_column(n, field.name, table.column(n).cast(pa.string_view()))
        elif field.type == pa.binary():
            table = table.set_column(n, field.name, table.column(n).cast(pa.binary_view()))
    return table.select(list(reversed(table.column_names)))


def as_old(table: pa.Table) -> pa.Table:
    """Before some columns existed, in milliseconds, with wide offsets and dictionaries."""
    table = table.drop_columns(["deliver_at", "expires_at", "producer_epoch"])
    for name, kind in (
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("ordered_at", pa.timestamp("ns", "UTC")),
        ("partition", pa.int64()),
        ("offset", pa.decimal128(20, 0)),
    ):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, table.column(name).cast(kind))
    at = table.schema.get_field_index("topic")
    return table.set_column(at, "topic", table.column("topic").dictionary_encode())


FORMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "ours": (lambda table: table, {"store_schema": False}),
    "spark": (as_spark, {"use_deprecated_int96_timestamps": True, "store_schema": False}),
    "delta-rs": (as_delta_rs, {"store_schema": True, "write_statistics": False}),
    "old": (as_old, {"store_schema": True}),
}


def put(store: Any, records: Sequence[dict[str, Any]], form: str, groups: int, stats: bool) -> Add:
    """One file with these records as they come, in so many row groups."""
    change, options = FORMS[form]
    table = rows(records)
    sink = pa.BufferOutputStream()
    size = -(-len(records) // groups)
    pq.write_table(change(table), sink, row_group_size=size, **options)
    path = f"hour={HOUR}/part-{next(_names):05d}-c000.parquet"
    store.put(f"log/{path}", sink.getvalue())
    said = file_stats(table, LOG.stats) if stats else None
    return Add(path, len(sink.getvalue()), {"hour": HOUR}, stats=said)


def drained(root: Any, topic_id: str, partition: int, most: int) -> list[dict[str, Any]]:
    reader = LogReader(root)
    found: list[dict[str, Any]] = []
    at = reader.first_offset(TopicId(topic_id), Partition(partition))
    while True:
        some = reader.read_range(TopicId(topic_id), Partition(partition), at, most)
        if some.num_rows == 0:
            return found
        found += some.to_pylist()
        at = Offset(found[-1]["offset"] + 1)


def a_root() -> Any:
    """What a reader needs of a root: its store, with an empty log."""
    store = ObjectStore.in_memory()
    create_table(store, "log", LOG)
    return SimpleNamespace(store=store)


KEYS = [("t1", 0), ("t1", 1), ("t2", 0)]


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_whatever_an_engine_makes_of_the_files_each_record_comes_once_in_order(
    data: st.DataObject,
) -> None:
    root = a_root()
    model = {
        key: data.draw(st.sets(st.integers(0, 40), max_size=25), label=str(key)) for key in KEYS
    }
    all_records = [record(*key, offset) for key, some in model.items() for offset in some]
    copies = data.draw(st.lists(st.sampled_from(all_records), max_size=8)) if all_records else []
    strewn = data.draw(st.permutations(all_records + copies))
    log = TableLog(root.store, "log").open()
    adds = []
    while strewn:
        count = data.draw(st.integers(1, len(strewn)))
        form = data.draw(st.sampled_from(sorted(FORMS)))
        groups, stats = data.draw(st.integers(1, 4)), data.draw(st.booleans())
        adds.append(put(root.store, strewn[:count], form, groups, stats))
        strewn = strewn[count:]
    ends = [Txn(f"offset/{topic}/{partition}", 45) for topic, partition in KEYS]
    log.commit([*adds, *ends])
    for key, offsets in model.items():
        found = drained(root, *key, most=data.draw(st.integers(1, 30)))
        assert [r["offset"] for r in found] == sorted(offsets)
        expected = rows([record(*key, n) for n in sorted(offsets)]) if offsets else None
        if expected is not None:
            names = list(found[0])
            assert pa.Table.from_pylist(found, expected.select(names).schema) == expected.select(
                names
            )
        reader = LogReader(root)
        held = {n for n in range(45) if n >= min(offsets, default=45)} - offsets
        told = {
            n for low, to in reader.gaps(TopicId(key[0]), Partition(key[1])) for n in range(low, to)
        }
        assert told == held


def test_two_copies_that_differ_are_an_error_that_names_both_files() -> None:
    root = a_root()
    log = TableLog(root.store, "log").open()
    one = put(root.store, [record("t1", 0, n) for n in range(10)], "ours", 1, stats=True)
    other = put(root.store, [record("t1", 0, 6, "another")], "spark", 1, stats=True)
    log.commit([one, other, Txn("offset/t1/0", 10)])
    reader = LogReader(root)
    before = reader.read_range(TopicId("t1"), Partition(0), Offset(0), 100)
    assert before["offset"].to_pylist() == list(range(6))
    with pytest.raises(CorruptTable) as refused:
        reader.read_range(TopicId("t1"), Partition(0), Offset(6), 100)
    assert one.path in refused.value.detail
    assert other.path in refused.value.detail
    assert "lakequeue repair" in refused.value.hint
    with pytest.raises(CorruptTable):
        reader.spans(TopicId("t1"), Partition(0), Offset(0), Offset(10))
    log.commit([Remove(other.path)])
    reader.refresh()
    rest = reader.read_range(TopicId("t1"), Partition(0), Offset(6), 100)
    assert rest["offset"].to_pylist() == [6, 7, 8, 9]


def test_two_copies_in_one_row_group_that_differ_are_an_error() -> None:
    root = a_root()
    log = TableLog(root.store, "log").open()
    doubled = [record("t1", 0, n) for n in range(5)] + [record("t1", 0, 3, "another")]
    add = put(root.store, doubled, "ours", 1, stats=True)
    log.commit([add, Txn("offset/t1/0", 5)])
    with pytest.raises(CorruptTable, match=r"offset 3 of t1/0 stands twice"):
        LogReader(root).read_range(TopicId("t1"), Partition(0), Offset(0), 100)


def test_a_row_of_no_partition_is_an_error_that_names_the_file() -> None:
    root = a_root()
    log = TableLog(root.store, "log").open()
    add = put(root.store, [record("t1", 0, 0) | {"offset": None}], "ours", 1, stats=False)
    log.commit([add, Txn("offset/t1/0", 5)])
    with pytest.raises(CorruptTable, match="1 rows without offset") as refused:
        LogReader(root).read_range(TopicId("t1"), Partition(0), Offset(0), 100)
    assert add.path in refused.value.detail


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("timestamp", pa.array([1 << 60], pa.timestamp("ms"))),
        ("offset", pa.array([1.5])),
        ("partition", pa.array([1 << 40])),
        ("value", pa.array([1])),
        ("topic", pa.array([b"\xff\xfe"])),
        ("headers", pa.array(["text"])),
    ],
)
def test_what_a_declared_column_cannot_hold_is_an_error_that_names_file_and_column(
    name: str, column: pa.Array
) -> None:
    with pytest.raises(CorruptTable, match=f"data file log/x: column {name}"):
        as_declared(pa.table({name: column}), pa.schema([LOG.file_arrow.field(name)]), "log/x")


@pytest.mark.parametrize("form", sorted(FORMS))
def test_a_whole_file_is_read_as_declared(form: str) -> None:
    store = ObjectStore.in_memory()
    create_table(store, "log", LOG)
    records = [record("t1", 0, n) for n in range(20)]
    add = put(store, records, form, 3, stats=True)
    expected = rows(records)
    assert read_data_file(store, "log", add.path) == expected
    assert read_data_file(store, "log", add.path, ["offset", "deliver_at"]) == expected.select(
        ["offset", "deliver_at"]
    )
