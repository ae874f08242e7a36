"""A file of the queue's own that holds several partitions is decoded once by who reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from lakequeue.records import Offset, Partition, TopicId
from queue_tables.delta.actions import Txn
from queue_tables.delta.table import TableLog
from queue_tables.log import files
from queue_tables.log.decoded import prefix_of
from queue_tables.log.reader import LogReader
from queue_tables.log.writer import write_log_file
from queue_tables.schema.schemas import LOG
from tests.unit.queue_tables.log.test_foreign_files import HOUR, a_root, record, rows

TOPIC = TopicId("t1")


def written(*orders: Sequence[tuple[int, int]]) -> Any:
    """A root whose log has a file for each of these lists of (partition, offset)."""
    root = a_root()
    adds = [
        write_log_file(root.store, rows([record(TOPIC, *one) for one in some]), HOUR)
        for some in orders
    ]
    TableLog(root.store, "log").open().commit(
        [*adds, *(Txn(f"offset/{TOPIC}/{partition}", 5) for partition in (0, 1))]
    )
    return root


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many columns each decoding of a row group had."""
    counts: list[int] = []
    real = files.read_group

    def read_group(*args: Any, **kwargs: Any) -> pa.Table:
        found = real(*args, **kwargs)
        counts.append(found.num_columns)
        return found

    monkeypatch.setattr(files, "read_group", read_group)
    return counts


def values(reader: LogReader, partition: int) -> list[str]:
    found = reader.read_range(TOPIC, Partition(partition), Offset(0), 100)
    return [value.decode() for value in found["value"].to_pylist()]


def test_who_reads_the_records_decodes_a_small_file_once(decoded: list[int]) -> None:
    reader = LogReader(written([(p, n) for p in (0, 1) for n in range(5)]))
    for partition in (0, 1):
        assert values(reader, partition) == [f"v t1/{partition}@{n}" for n in range(5)]
    assert len(decoded) == 1


def test_who_asks_where_records_are_decodes_no_value(decoded: list[int]) -> None:
    reader = LogReader(written([(p, n) for p in (0, 1) for n in range(5)]))
    assert reader.first_offset(TOPIC, Partition(1)) == 0
    assert decoded == [3]


def test_rows_of_an_own_file_that_are_not_in_order_are_put_in_order() -> None:
    reader = LogReader(written([(0, 1), (1, 0), (0, 0), (1, 2), (1, 1)], [(0, 2)]))
    assert values(reader, 0) == [f"v t1/0@{n}" for n in range(3)]
    assert values(reader, 1) == [f"v t1/1@{n}" for n in range(3)]


def test_the_first_rows_within_a_bound() -> None:
    cells = pa.chunked_array([[b"abc", None, b"d"], [], [b"", b"efgh"]], pa.binary())
    table = pa.table({"key": cells, "value": cells})
    assert prefix_of(table, 16, 0) == (table, 16)
    assert prefix_of(table, 15, 0)[0].num_rows == 4
    assert prefix_of(rows([record("t", 0, 1)]).select(LOG.stats), 0, 1)[1] == 0
