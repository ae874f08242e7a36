"""A batch is read while Spark plans it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.rows.batch_file import BatchFile
from jobs.streaming.batch_manifest import BatchManifest
from jobs.streaming.query import ShardQuery
from jobs.streaming.source import SourceOptions
from jobs.streaming.source_channel import SourceEnd
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
        self.query = ShardQuery(no_spark, options, lambda _spark, _parts: None)
        self.query._source.open()
        self.query._source.begin(0)
        self.source = SourceEnd(folder, "inbox", 0)
        self._told: list[str] = []

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


def test_what_spark_plans_is_read_already(planned: Planned) -> None:
    file = planned.commit(1, b"x")
    wait_for(lambda: planned.query._ahead is not None and planned.query._ahead[1].done())
    planned.root.store.delete(file)
    (read,) = planned.query._parts(no_frame, 1)
    rows, sources = read()
    assert rows["stamp"].to_pylist() == [1]
    assert rows["fault"].to_pylist() == [None], "it was read before it went"
    assert len(sources) == 1
    assert planned.query._ahead is None, "nothing of it is kept"


def test_of_another_batch_nothing_is_taken(planned: Planned) -> None:
    planned.commit(1, b"x")
    planned.commit(2, b"y")
    (read,) = planned.query._parts(no_frame, 2)
    rows, _ = read()
    assert rows["stamp"].to_pylist() == [2]
