"""The readers of `format("lakequeue")` without Spark around them, and what they open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pyspark.sql.types import StructType

from pyspark_lakequeue.source.batch_reader import BatchReader
from pyspark_lakequeue.source.options import read_options
from pyspark_lakequeue.source.stream_reader import StreamReader
from queue_tables.delta.store import LocalStore
from queue_tables.root import QueueRoot

Row = dict[str, Any]


def batch(root: QueueRoot, **given: str) -> BatchReader:
    options = {"root": root.uri} | {name.replace("_", "."): v for name, v in given.items()}
    return BatchReader(read_options(options, streaming=False), StructType())


def stream(root: QueueRoot, **given: str) -> StreamReader:
    options = {"root": root.uri, "pollTimeoutMs": "1"} | given
    return StreamReader(read_options(options, streaming=True), StructType())


def rows_of(reader: BatchReader) -> list[Row]:
    return [row for part in reader.partitions() for b in reader.read(part) for row in b.to_pylist()]


def between(reader: StreamReader, start: Row, end: Row) -> list[tuple[str, int, int]]:
    """(topic, partition, offset) of what a batch reads, as a worker does after pickling."""
    read = [
        row
        for part in reader.partitions(start, end)
        for b in reader.read(part)
        for row in b.to_pylist()
    ]
    return sorted((row["topic"], row["partition"], row["offset"]) for row in read)


def offsets(vector: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    return {name: dict(o) for name, o in vector.items() if not name.startswith("@")}


class Reads:
    """Counts how often data files below `log/` are opened, or read whole."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files: Counter[str] = Counter()
        for operation in ("open", "get"):
            monkeypatch.setattr(LocalStore, operation, self._counting(operation))

    def _counting(self, operation: str) -> Callable[[LocalStore, str], Any]:
        read = getattr(LocalStore, operation)

        def counting(store: LocalStore, path: str) -> Any:
            if path.endswith(".parquet") and path.startswith("log/"):
                self.files[path.removeprefix("log/")] += 1
            return read(store, path)

        return counting
