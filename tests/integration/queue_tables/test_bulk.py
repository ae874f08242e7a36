"""What becomes of the files of a bulk write whose commit ended in an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from lakequeue.errors import StorageUnavailable, TopicClosed
from lakequeue.records import TopicId, Version
from pyspark_lakequeue.sink.options import sink_options
from pyspark_lakequeue.sink.waiting import wait_ordered
from pyspark_lakequeue.sink.writer import BatchWriter, WriteBatch, Written
from queue_tables.delta.store import Store
from queue_tables.root import QueueRoot
from queue_tables.shards.bulk import commit_bulk, discard_uncommitted, seal_run, shard_of
from queue_tables.shards.shards import seal_shard, shard_path
from queue_tables.topics import TopicStore
from tests.support.data.order_truth import log_rows
from tests.support.faults.faulty_store import FaultyStore
from tests.support.runs.bulk_process import ROWS, WRITER, write_files
from tests.support.runs.order_process import Orderer


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    return QueueRoot.open(str(tmp_path / "queue"))


def test_an_abort_after_a_commit_that_landed_takes_nothing(root: QueueRoot) -> None:
    topic = TopicStore(root).create("orders", partitions=1)[0]
    files = write_files(root, topic.topic_id, "run1", 0)
    assert commit_bulk(root, WRITER, "run1", 0, files) is not None
    late = write_files(root, topic.topic_id, "run1", 1)
    # Spark aborts what it was told of an error of, whether it landed or not.
    discard_uncommitted(root, [*files, *late])
    there = {f"{shard_path('inbox', f.shard)}/{f.add.path}" for f in files}
    gone = {f"{shard_path('inbox', f.shard)}/{f.add.path}" for f in late}
    assert all(root.store.exists(path) for path in there)
    assert not any(root.store.exists(path) for path in gone)
    Orderer(root, 1).drain()
    assert len(log_rows(root)) == 2 * ROWS


def test_waiting_for_the_order_ends_with_it_or_says_that_the_rows_are_stored(
    root: QueueRoot, caplog: pytest.LogCaptureFixture
) -> None:
    topic = TopicStore(root).create("orders", partitions=1)[0]
    assert commit_bulk(root, WRITER, "r1", 0, write_files(root, topic.topic_id, "r1", 0))
    seal_run(root, WRITER, "r1")
    assert not wait_ordered(root, WRITER, 0.05)
    assert "stored, and not ordered after 0.05 s: no order job runs" in caplog.text
    assert "do not write them again" in caplog.text
    Orderer(root, 1).drain()
    assert wait_ordered(root, WRITER, 0.0)
    assert wait_ordered(root, "another", 0.0)


def test_what_was_placed_before_a_topic_is_drained_or_grows_is_not_committed(
    root: QueueRoot,
) -> None:
    topics = TopicStore(root)
    topic, other = (topics.create(name, partitions=1)[0] for name in ("orders", "other"))
    placed = {topic.topic_id: 1}

    def commit(batch: int, placed: dict[TopicId, int]) -> Version | None:
        files = write_files(root, topic.topic_id, "run1", batch)
        return commit_bulk(root, WRITER, "run1", batch, files, {}, placed)

    assert commit(0, placed) is not None
    topics.alter("orders", closed_for_ms=60_000)
    with pytest.raises(TopicClosed, match="takes no records") as refused:
        commit(1, placed)
    assert refused.value.stored == "no"
    assert commit(2, {other.topic_id: 1}) is not None, "one that has no rows here does not matter"
    # As settling does. The run goes on with another shard, which looks at the topics again.
    seal_shard(root, "inbox", shard_of(WRITER, "run1"))
    with pytest.raises(TopicClosed, match="takes no records"):
        commit(3, placed)
    topics.alter("orders", partitions=2, closed_for_ms=0)
    with pytest.raises(TopicClosed, match="has just grown to 2 partitions"):
        commit(4, placed)
    assert commit(5, {topic.topic_id: 2}) is not None
    Orderer(root, 1).drain()
    assert len(log_rows(root)) == 3 * 2 * ROWS


def test_a_frame_that_is_stored_is_no_error_if_its_shard_cannot_be_sealed(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topic = TopicStore(root).create("orders", partitions=1)[0]
    given = {"root": root.uri, "topic": "orders", "wait": "committed"}
    schema = StructType([StructField("value", StringType())])
    writer = BatchWriter(sink_options(given), schema, overwrite=False)
    batch = WriteBatch(WRITER, "r1", 0)
    written = Written(batch, write_files(root, topic.topic_id, "r1", 0), topics={topic.topic_id})

    def away(_inner: Store, _path: str, _data: bytes) -> None:
        raise StorageUnavailable("connection refused")

    store = FaultyStore(root.store)
    # It fails from the commit on: that opens the root, and what seals opens it again.
    roots = iter([root, QueueRoot.over(store)])
    store.faults = [away] * 20
    monkeypatch.setattr(QueueRoot, "existing", lambda _: next(roots))
    writer.commit([written])
    assert len(store.faults) < 20
    assert "are stored: do not write them again (" in caplog.text
    Orderer(root, 1).drain()
    assert len(log_rows(root)) == 2 * ROWS
