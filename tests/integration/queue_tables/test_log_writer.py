"""The log writer copies exactly what was planned, and says so in the statistics."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakequeue.errors import CorruptTable
from lakequeue.records import Stamp
from queue_tables.delta.actions import commit_path
from queue_tables.delta.commit_json import parse
from queue_tables.files.parquet import read_data_file
from queue_tables.log.writer import PLAN, adds_from_arrow, adds_to_arrow, write_log_files
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import LOG
from queue_tables.shards.shards import ShardWriter
from tests.support.data.rows import inbox_rows

AT = 1_700_000_000_123_456


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    return QueueRoot.open(str(tmp_path / "root"))


def inbox_file(root: QueueRoot, shard: ShardWriter, values: list[bytes], stamp: int) -> str:
    version = shard.append(inbox_rows(values), Stamp(stamp))
    commit = parse(version, root.store.get(commit_path(shard.path, version)))
    return f"{shard.path}/{commit.adds[0].path}"


def a_plan(rows: list[tuple[str, int, int, int]], shard: str = "n-1", out: str = "0") -> pa.Table:
    """Rows of (file, row, partition, offset)."""
    return pa.Table.from_pylist(
        [
            {
                "file": file,
                "row": row,
                "topic": "orders",
                "topic_id": "t1",
                "partition": partition,
                "offset": offset,
                "ordered_at": AT,
                "shard": shard,
                "hour": "2023-11-14T22",
                "out_file": out,
            }
            for file, row, partition, offset in rows
        ],
        schema=PLAN,
    )


def test_values_come_from_the_planned_rows_in_planned_order(root: QueueRoot) -> None:
    shard = ShardWriter.create(root, "inbox", "n")
    one = inbox_file(root, shard, [b"a0", b"a1", b"a2"], 10)
    two = inbox_file(root, shard, [b"b0", b"b1"], 20)
    plan = a_plan([(two, 1, 0, 7), (one, 0, 0, 8), (one, 2, 1, 0), (two, 0, 1, 1)], shard.name)
    (add,) = write_log_files(root.uri, plan)
    rows = read_data_file(root.store, "log", add.path)
    assert rows.schema.equals(LOG.file_arrow)
    assert rows.column("value").to_pylist() == [b"b1", b"a0", b"a2", b"b0"]
    assert rows.column("stamp").to_pylist() == [20, 10, 10, 20]
    assert rows.column("row").to_pylist() == [1, 0, 2, 0]
    assert rows.column("offset").to_pylist() == [7, 8, 0, 1]
    assert rows.column("headers").to_pylist() == [[{"key": "source", "value": b"test"}]] * 4
    assert rows.column("shard").to_pylist() == [shard.name] * 4
    assert rows.column("message_id").null_count == 4


def test_the_add_carries_size_partition_and_statistics(root: QueueRoot) -> None:
    shard = ShardWriter.create(root, "inbox", "n")
    file = inbox_file(root, shard, [b"a0", b"a1"], 10)
    (add,) = write_log_files(root.uri, a_plan([(file, 0, 0, 5), (file, 1, 3, 9)]))
    assert add.partition_values == {"hour": "2023-11-14T22"}
    assert add.path.startswith("hour=2023-11-14T22/")
    assert root.store.size(f"log/{add.path}") == add.size
    stats = json.loads(add.stats or "")
    assert stats["numRecords"] == 2
    low, high = stats["minValues"], stats["maxValues"]
    assert (low["partition"], high["partition"]) == (0, 3)
    assert (low["offset"], high["offset"]) == (5, 9)
    assert set(low) == set(LOG.stats)
    assert "value" not in low


def test_each_out_file_is_one_file_and_what_an_executor_hands_over_survives(
    root: QueueRoot,
) -> None:
    shard = ShardWriter.create(root, "inbox", "n")
    file = inbox_file(root, shard, [b"a", b"b", b"c"], 10)
    plan = pa.concat_tables(
        [a_plan([(file, 2, 0, 0)], out="x"), a_plan([(file, 0, 1, 0), (file, 1, 1, 1)], out="y")]
    )
    adds = write_log_files(root.uri, plan)
    assert [json.loads(add.stats or "")["numRecords"] for add in adds] == [1, 2]
    assert adds_from_arrow(adds_to_arrow(adds)) == adds
    assert pickle.loads(pickle.dumps(write_log_files)) is write_log_files  # noqa: S301


def test_a_plan_written_twice_makes_different_files(root: QueueRoot) -> None:
    shard = ShardWriter.create(root, "inbox", "n")
    plan = a_plan([(inbox_file(root, shard, [b"a"], 10), 0, 0, 0)])
    assert write_log_files(root.uri, plan)[0].path != write_log_files(root.uri, plan)[0].path
    assert write_log_files(root.uri, plan.slice(0, 0)) == []


def test_row_groups_end_where_the_partition_changes(root: QueueRoot) -> None:
    shard = ShardWriter.create(root, "inbox", "n")
    counts = {0: 3000, 1: 20_000, 2: 10, 3: 20}
    values = [b"v%d" % i for i in range(sum(counts.values()))]
    file = inbox_file(root, shard, values, 10)
    rows, n = [], 0
    for partition, count in counts.items():
        rows += [(file, n + i, partition, i) for i in range(count)]
        n += count
    (add,) = write_log_files(root.uri, a_plan(rows))
    footer = pq.read_metadata(root.store.open(f"log/{add.path}"))
    at = LOG.file_arrow.names.index("partition")
    bounds = [
        (stats.min, stats.max, footer.row_group(i).num_rows)
        for i in range(footer.num_row_groups)
        # `headers` has two leaves, and comes after `partition`.
        for stats in [footer.row_group(i).column(at).statistics]
    ]
    assert bounds == [(0, 0, 3000), *[(1, 1, n) for n in (6666, 6667, 6667)], (2, 3, 30)]


def test_a_source_that_is_not_what_was_planned_is_an_error(root: QueueRoot) -> None:
    shard = ShardWriter.create(root, "inbox", "n")
    file = inbox_file(root, shard, [b"a", b"b"], 10)
    with pytest.raises(CorruptTable, match="fewer rows"):
        write_log_files(root.uri, a_plan([(file, 2, 0, 0)]))
    with pytest.raises(FileNotFoundError):
        write_log_files(root.uri, a_plan([(file.replace("part-", "gone-"), 0, 0, 0)]))
    assert root.store.names("log/hour=2023-11-14T22") == []
