"""The readers of `format("lakequeue")` without Spark around them, and what they open."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
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


class Reads:
    """Counts what is opened below `log/`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files: Counter[str] = Counter()
        opened = LocalStore.open

        def counting(store: LocalStore, path: str) -> str | pa.BufferReader:
            if path.endswith(".parquet") and path.startswith("log/"):
                self.files[path.removeprefix("log/")] += 1
            return opened(store, path)

        monkeypatch.setattr(LocalStore, "open", counting)
