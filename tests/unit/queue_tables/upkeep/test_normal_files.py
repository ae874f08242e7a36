"""What a repair writes anew of tables other than the log: what is nowhere else, in pieces."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from queue_tables.delta.actions import Add
from queue_tables.delta.store import ObjectStore
from queue_tables.delta.table import TableLog
from queue_tables.files.parquet import DataFile, read_data_file
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import REJECTS
from queue_tables.upkeep.normal_files import normal_files
from tests.support.data.deletion_vectors import stored
from tests.support.data.rows import rows_of

HOUR = "2026-11-29T08"


def foreign_file(root: QueueRoot, name: str, values: list[bytes], group: int) -> Add:
    """Rows of `rejects` in several row groups."""
    sink = pa.BufferOutputStream()
    rows = rows_of(REJECTS, {"value": values}, without=("hour",))
    pq.write_table(rows, sink, row_group_size=group, store_schema=False)
    path, data = f"hour={HOUR}/part-00000-{name}.c000.parquet", sink.getvalue()
    root.store.put(f"rejects/{path}", data)
    return Add(path, data.size, {"hour": HOUR}, 0)


@pytest.mark.parametrize("seed", range(10))
def test_each_row_that_stands_nowhere_else_is_written_in_order(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    root = QueueRoot.over(ObjectStore.in_memory())
    log = TableLog(root.store, "rejects").open()
    first, second = ([b"%d" % rng.randrange(90) for _ in range(60)] for _ in range(2))
    stay = [b"%d" % n for n in range(0, 90, 7)]
    adds = [
        foreign_file(root, name, values, rng.randint(1, 30))
        for name, values in (("stay", stay), ("first", first), ("second", second))
    ]
    gone = set(rng.sample(range(60), 20))
    adds[2] = replace(adds[2], deletion_vector=stored(root.store, "rejects", sorted(gone)))
    monkeypatch.setattr(
        "queue_tables.upkeep.normal_files._CHUNK_BYTES", rng.choice([1, 3_000, 1 << 20])
    )
    written = normal_files(root, log, adds[1:], adds[:1], REJECTS)
    found = [v for add in written for v in _values(root, add)]
    left = [*first, *(v for n, v in enumerate(second) if n not in gone)]
    assert found == [value for value in left if value not in stay]


def test_of_a_large_file_little_is_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    root = QueueRoot.over(ObjectStore.in_memory())
    log = TableLog(root.store, "rejects").open()
    values = [b"%d" % n for n in range(5_000)]
    add = foreign_file(root, "big", values, 100)
    with DataFile(root.store, "rejects", add.path) as file:
        one = file.rows(0).nbytes
    monkeypatch.setattr("queue_tables.upkeep.normal_files._CHUNK_BYTES", 4 * one)
    written = normal_files(root, log, [add], [], REJECTS)
    assert 10 <= len(written) <= 13
    assert [v for one in written for v in _values(root, one)] == values


def _values(root: QueueRoot, add: Add) -> list[bytes]:
    found: list[bytes] = read_data_file(root.store, "rejects", add.path)["value"].to_pylist()
    return found
