"""A batch is read and prepared while Spark plans it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.rows.batch_file import BatchFile
from jobs.source.batch_manifest import BatchManifest
from jobs.source.source import SourceOptions
from jobs.source.source_channel import SourceEnd
from jobs.streaming.query import Part, Ready, ShardQuery
from lakequeue.records import Stamp
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import ShardWriter
from tests.support.data.rows import inbox_rows
from tests.support.services.zookeeper import wait_for


class Planned:
    """A query whose Spark is still planning."""

    def __init__(self, folder: Path) -> None:
        self.root = QueueRoot.open(str(folder / "queue"))
        self._writer = ShardWriter.create(self.root, "inbox", "node")
        options = SourceOptions(self.root.uri, folder, "inbox", 1 << 20, 1 << 20, 1.0, 0.0, 1)
        no_spark: Any = None
        self.query = ShardQuery(no_spark, options, self._prepare)
        self.prepared: list[int] = []
        self.done: list[int] = []
        self.fails = False
        self.query._source.open()
        self.query._source.begin(0)
        self.source = SourceEnd(folder, "inbox", 0)
        self._told: list[str] = []

    def _prepare(self, _spark: SparkSession, parts: Sequence[Part]) -> Ready:
        if self.fails:
            raise RuntimeError("no room")
        (read,) = parts
        rows, sources = read()
        assert rows["fault"].to_pylist() == [None]
        assert len(sources) == 1
        stamps = rows["stamp"].to_pylist()
        self.prepared += stamps
        return lambda: self.done.extend(stamps)

    def commit(self, stamp: int, value: bytes) -> str:
        """Commit a record, and tell of it as batch `stamp`; the file it is in."""
        self._writer.append(inbox_rows([value]), Stamp(stamp))
        path = f"inbox/{self._writer.name}"
        (file,) = (f for f in load_snapshot(self.root.store, path).files if f not in self._told)
        self._told.append(file)
        after = Stamp(stamp - 1)
        piece = BatchManifest([BatchFile(self._writer.name, file, after, Stamp(stamp))], ())
        self.source.tell_batch(stamp, [piece])
        return f"{path}/{file}"


@pytest.fixture
def planned(tmp_path: Path) -> Iterator[Planned]:
    """It was never started."""
    made = Planned(tmp_path)
    yield made
    made.source.close()
    made.query._source.close()


def no_frame() -> Any:
    raise AssertionError("Spark is not asked")


def test_what_spark_plans_is_read_and_prepared_already(planned: Planned) -> None:
    file = planned.commit(1, b"x")
    wait_for(lambda: planned.query._ahead is not None and planned.query._ahead[1].done())
    planned.root.store.delete(file)
    assert planned.prepared == [1], "before Spark runs it"
    ready = planned.query._ready(no_frame, 1)
    assert planned.done == []
    assert ready is not None
    ready()
    assert planned.done == [1]
    assert planned.query._ahead is None, "nothing of it is kept"


def test_of_another_batch_nothing_is_taken(planned: Planned) -> None:
    planned.commit(1, b"x")
    planned.commit(2, b"y")
    ready = planned.query._ready(no_frame, 2)
    assert ready is not None
    ready()
    assert planned.done == [2]


def test_what_fails_before_spark_runs_a_batch_fails_it_when_it_runs(planned: Planned) -> None:
    planned.fails = True
    planned.commit(1, b"x")
    with pytest.raises(RuntimeError, match="no room"):
        planned.query._on_batch(no_frame, 1)
    assert isinstance(planned.query.error, RuntimeError)


def test_a_batch_that_is_told_while_the_process_ends_is_not_begun(planned: Planned) -> None:
    planned.query._worker.shutdown()
    planned.query._begin_ahead(1, [BatchManifest([], ())])
    assert planned.query._ahead is None
