"""What a repair writes anew of the log: the same as if it held all of it, and little is held."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from queue_tables.delta.actions import Add, Txn
from queue_tables.delta.store import ObjectStore
from queue_tables.delta.table import TableLog
from queue_tables.files.parquet import DataFile, read_data_file
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import offset_mark
from queue_tables.schema.schemas import LOG
from queue_tables.upkeep.normal_log_files import Offsets, normal_log_files
from tests.support.data.deletion_vectors import stored
from tests.support.data.rows import rows_of

HOUR = "2026-11-29T08"
Place = tuple[str, str, int, int]
"""(topic, topic id, partition, offset)"""
TOPICS = [("a", "id-2"), ("b", "id-1"), ("b", "id-3")]


@pytest.mark.parametrize("seed", range(20))
def test_ranges_know_what_a_set_knows(seed: int) -> None:
    rng = random.Random(seed)
    known, model = Offsets(), set[int]()
    for _ in range(rng.randint(1, 6)):
        some = [rng.randrange(60) for _ in range(rng.randint(0, 20))]
        known.add(("t", 0), np.array(some, np.int64))
        model |= set(some)
        asked = np.arange(-2, 65)
        assert known.among(("t", 0), asked).tolist() == [n in model for n in asked.tolist()]
    assert not known.among(("t", 1), np.arange(60)).any()


def foreign_file(root: QueueRoot, name: str, places: list[Place], group: int) -> Add:
    """A file of several row groups; each record's value says where it came from."""
    columns = {
        "topic": [p[0] for p in places],
        "topic_id": [p[1] for p in places],
        "partition": [p[2] for p in places],
        "offset": [p[3] for p in places],
        "value": [f"{name}:{n}".encode() for n in range(len(places))],
    }
    sink = pa.BufferOutputStream()
    rows = rows_of(LOG, columns, without=("hour",))
    pq.write_table(rows, sink, row_group_size=group, store_schema=False)
    path = f"hour={HOUR}/part-00000-{name}.c000.parquet"
    data = sink.getvalue()
    root.store.put(f"log/{path}", data)
    return Add(path, data.size, {"hour": HOUR}, 0)


@pytest.mark.parametrize("seed", range(15))
def test_it_is_sorted_and_each_offset_is_there_once(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    root = QueueRoot.over(ObjectStore.in_memory())
    ends = {(topic_id, p): rng.randint(0, 40) for _, topic_id in TOPICS for p in range(2)}
    log = TableLog(root.store, "log").open()
    log.commit([Txn(offset_mark(*key), end) for key, end in ends.items()], {})

    def some() -> list[Place]:
        return [
            (*rng.choice(TOPICS), rng.randrange(2), rng.randint(-2, 45))
            for _ in range(rng.randint(1, 80))
        ]

    stay, first, second = some(), some(), some()
    adds = [
        foreign_file(root, name, places, rng.randint(1, 30))
        for name, places in (("stay", stay), ("first", first), ("second", second))
    ]
    gone = set(rng.sample(range(len(second)), len(second) // 3))
    if gone:
        vector = stored(root.store, "log", sorted(gone))
        adds[2] = replace(adds[2], deletion_vector=vector)
    monkeypatch.setattr(
        "queue_tables.upkeep.normal_log_files._CHUNK_BYTES", rng.choice([1, 2_000, 1 << 20])
    )
    written = normal_log_files(root, log, adds[1:], adds[:1])

    there = {place[1:] for place in stay}
    wanted: dict[Place, bytes] = {}
    per_file: list[list[Place]] = []
    for name, places in (("first", first), ("second", second)):
        mine = []
        for n, place in enumerate(places):
            if name == "second" and n in gone:
                continue
            if place[1:] not in there and 0 <= place[3] < ends[place[1], place[2]]:
                there.add(place[1:])
                wanted[place] = f"{name}:{n}".encode()
                mine.append(place)
        per_file.append(sorted(mine))
    found: list[Place] = []
    for add in written:
        rows = read_data_file(root.store, "log", add.path)
        for row in rows.to_pylist():
            place = (row["topic"], row["topic_id"], row["partition"], row["offset"])
            assert row["value"] == wanted[place]
            found.append(place)
    assert found == [place for mine in per_file for place in mine]


def test_of_a_large_file_little_is_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    root = QueueRoot.over(ObjectStore.in_memory())
    count = 20_000
    log = TableLog(root.store, "log").open()
    log.commit([Txn(offset_mark("id-1", 0), count)], {})
    add = foreign_file(root, "big", [("b", "id-1", 0, n) for n in range(count)], 1_000)
    held: list[int] = []
    right = DataFile.rows

    def rows(self: DataFile, group: int, columns: list[str] | None = None) -> pa.Table:
        found = right(self, group, columns)
        held.append(found.num_rows if columns is None else 0)
        return found

    monkeypatch.setattr(DataFile, "rows", rows)
    with DataFile(root.store, "log", add.path) as file:
        monkeypatch.setattr(
            "queue_tables.upkeep.normal_log_files._CHUNK_BYTES", 2_000 * file.row_bytes
        )
    written = normal_log_files(root, log, [add], [])
    assert len(written) == 10
    assert max(held) == 1_000
    assert sum(held) == count, "each row group is read once"
