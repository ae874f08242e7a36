"""What a source notes of a batch, and when the driver may go by it."""

from __future__ import annotations

from pathlib import Path

from jobs.batch_files import BatchFiles, BatchNote
from jobs.cut import Seen
from lakequeue.records import ShardName, Stamp, Version


def commits(count: int, size: int = 10) -> list[Seen]:
    """Commits of one file each."""
    fences = (("g", "t", 0, 3),)
    return [
        Seen(Stamp(n), ShardName("a"), Version(n), 1, size, (f"hour=x/{n}.parquet",), fences)
        for n in range(count)
    ]


def test_a_small_batch_comes_back_as_it_was_noted(tmp_path: Path) -> None:
    BatchNote(tmp_path, "inbox", 0).write(3, commits(2), 20)
    assert BatchNote(tmp_path, "inbox", 0).read(3) == BatchFiles(
        [("a", "hour=x/0.parquet"), ("a", "hour=x/1.parquet")], [("a", "g", "t", 0, 3)] * 2
    )


def test_only_the_batch_that_spark_runs_is_read(tmp_path: Path) -> None:
    note = BatchNote(tmp_path, "inbox", 0)
    assert note.read(0) is None
    note.write(1, commits(2), 20)
    assert note.read(0) is None
    assert note.read(2) is None
    assert BatchNote(tmp_path, "journal", 0).read(1) is None
    assert BatchNote(tmp_path, "inbox", 1).read(1) is None


def test_large_batches_are_left_to_the_tasks(tmp_path: Path) -> None:
    note = BatchNote(tmp_path, "inbox", 0)
    note.write(1, commits(2, size=11), 20)
    assert note.read(1) is None
    note.write(2, commits(1_001, size=0), 20)
    assert note.read(2) is None
