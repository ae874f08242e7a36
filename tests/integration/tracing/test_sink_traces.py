"""The span of a write by Spark's sink, in the processes that Spark runs it in."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import StringType, StructField, StructType

from lakequeue.errors import LakequeueError
from pyspark_lakequeue.sink.options import SinkOptions
from pyspark_lakequeue.sink.writer import BatchWriter, Written
from queue_tables.delta.columns import HEADERS
from queue_tables.root import QueueRoot
from queue_tables.shards.bulk import shard_of
from queue_tables.topics import TopicStore
from tests.support.tracing.kept_spans import kept_spans

SCHEMA = StructType([StructField("value", StringType())])
PARENTS = [f"00-{n:032x}-{n:016x}-01" for n in range(1, 4)]
HEADER_ROWS = [[{"key": "traceparent", "value": one.encode()}] for one in PARENTS]


@pytest.fixture
def writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BatchWriter:
    """As Spark makes it, and the context of a task."""
    root = QueueRoot.open(str(tmp_path / "queue"))
    TopicStore(root).create("orders", partitions=1)
    context = TaskContext._getOrCreate()
    context._partitionId = 0
    monkeypatch.setattr(TaskContext, "_taskContext", context)
    return BatchWriter(SinkOptions(root.uri, "orders", None), SCHEMA, overwrite=False)


def written(writer: BatchWriter) -> Written:
    columns = {
        "value": pa.array(["secret"] * 4),
        "headers": pa.array([*HEADER_ROWS, None], HEADERS),
    }
    return writer.write(iter([pa.record_batch(columns)]))


def test_a_write_is_a_span_that_is_linked_with_its_records(
    writer: BatchWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kept_spans(monkeypatch) as kept:
        writer.commit([written(writer)])
        [span] = kept.all()
    assert (span.name, span.kind.name, span.status.is_ok) == ("write orders", "CLIENT", True)
    assert [link.context.span_id for link in span.links] == [1, 2, 3]
    assert (span.attributes or {})["messaging.batch.message_count"] == 4
    assert "secret" not in span.to_json()


def test_a_write_that_fails_says_so(writer: BatchWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    with kept_spans(monkeypatch) as kept:
        message = written(writer)
        shard = shard_of(message.batch.writer, message.batch.run)
        (Path(writer.options.root) / "inbox" / shard / "_delta_log").write_text("in the way")
        with pytest.raises(LakequeueError) as failed:
            writer.commit([message])
        [span] = kept.all()
    assert (span.attributes or {})["error.type"] == failed.value.code


def test_without_traces_nothing_is_looked_at(writer: BatchWriter) -> None:
    assert written(writer).traces == []
