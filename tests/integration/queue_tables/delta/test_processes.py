"""Real processes: killed in the middle of an append, and racing for the versions of one table."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakequeue.records import Version
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import Tail
from queue_tables.files.parquet import read_data_file
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import ShardWriter, highest_stamp, shard_path
from tests.support.data.rows import inbox_rows
from tests.support.forking.forked import Forked
from tests.support.runs.append_process import FIRST_STAMP

REPOSITORY = Path(__file__).parents[4]
DEADLINE_S = 60


def start(*args: str) -> subprocess.Popen[str]:
    return Forked(
        [sys.executable, "-m", "tests.support.runs.append_process", *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    )


@pytest.mark.parametrize(
    ("crash_at", "acknowledged", "committed"),
    [
        ("ingest.data_written", 0, 0),
        ("ingest.data_written:4", 3, 3),
        ("ingest.committed", 0, 1),
        ("ingest.committed:4", 3, 4),
    ],
)
def test_a_process_killed_in_an_append_leaves_whole_groups_only(
    tmp_path: Path, crash_at: str, acknowledged: int, committed: int
) -> None:
    process = start("groups", "--root", str(tmp_path), "--crash-at", crash_at)
    answers = process.communicate(timeout=DEADLINE_S)[0].split()
    assert process.returncode == -signal.SIGKILL
    assert answers == [str(FIRST_STAMP + i) for i in range(acknowledged)]

    root = QueueRoot.open(str(tmp_path))
    (shard,) = root.shards("inbox")
    path = shard_path("inbox", shard)
    groups = [c for c in Tail(root.store, path, Version(-1)).poll() if c.appends]
    assert [c.info["stamp"] for c in groups] == [FIRST_STAMP + i for i in range(committed)]
    values = [
        value
        for group in groups
        for add in group.adds
        for value in read_data_file(root.store, path, add.path, ["value"])["value"].to_pylist()
    ]
    assert values == [f"{i}-{j}".encode() for i in range(committed) for j in range(3)]
    assert DeltaTable(str(tmp_path / path)).to_pyarrow_table().num_rows == committed * 3


def test_the_next_incarnation_begins_a_new_shard_above_the_old_stamps(tmp_path: Path) -> None:
    process = start("groups", "--root", str(tmp_path), "--crash-at", "ingest.committed:2")
    process.communicate(timeout=DEADLINE_S)
    root = QueueRoot.open(str(tmp_path))
    (old,) = root.shards("inbox")
    assert highest_stamp(root, "inbox", "crash") == FIRST_STAMP + 1
    writer = ShardWriter.create(root, "inbox", "crash")
    assert writer.name > old
    writer.append(inbox_rows([b"x"]), highest_stamp(root, "inbox", "crash"))
    assert root.shards("inbox") == [old, writer.name]


def test_two_processes_on_one_table_share_its_versions_and_lose_nothing(tmp_path: Path) -> None:
    QueueRoot.open(str(tmp_path))
    count = 60
    processes = [
        start("race", "--root", str(tmp_path), "--name", name, "--count", str(count))
        for name in ("a", "b")
    ]
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    won = [{int(v) for v in p.communicate(timeout=DEADLINE_S)[0].split()} for p in processes]
    assert [p.returncode for p in processes] == [0, 0]
    assert [len(versions) for versions in won] == [count, count]
    assert won[0] | won[1] == set(range(1, 2 * count + 1))

    root = QueueRoot.open(str(tmp_path))
    log = TableLog(root.store, "topics").open()
    assert log.version == 2 * count
    assert log.txns == {"a": count - 1, "b": count - 1}
    rows = DeltaTable(str(tmp_path / "topics")).to_pyarrow_table(columns=["topic", "version"])
    expected = [{"topic": n, "version": i} for n in ("a", "b") for i in range(count)]
    assert rows.sort_by([("topic", "ascending"), ("version", "ascending")]).to_pylist() == expected
