"""A stream whose records were removed before it read them, without Spark around the reader."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from lakequeue.errors import OffsetOutOfRange
from queue_tables.delta.maintenance import rewrite_files
from queue_tables.delta.table import TableLog
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from tests.support.data.log_builder import LogBuilder
from tests.support.spark.source_readers import between, offsets, stream


def remove_oldest(root: QueueRoot, skipped: int = 0) -> None:
    """Remove a file of the log as retention does: the oldest but for `skipped` ones."""
    table = TableLog(root.store, "log").open()
    file = list(table.files.values())[skipped]
    rewrite_files(table, [file], (), {"retention": True}, data_change=True)


def test_what_is_new_and_has_lost_its_first_records_already_is_data_loss(
    root: QueueRoot, log: LogBuilder
) -> None:
    log.append(log.topic("orders-a"), ["a"])
    strict = stream(root, subscribePattern="orders-.*")
    lenient = stream(root, subscribePattern="orders-.*", failOnDataLoss="false")
    start = strict.latestOffset(strict.initialOffset(), ReadAllAvailable())
    TopicStore(root).alter("orders-a", partitions=2)
    grown, new = TopicStore(root).get("orders-a"), log.topic("orders-b")
    log.append(new, ["b", "c"])
    log.append(grown, ["d"], 1)
    planned = strict.latestOffset(start, ReadAllAvailable())
    log.append(new, ["e"])
    remove_oldest(root, 1)
    said = "orders-b/0 is new to the query, and starts at 2 instead of 0"
    for refused in (
        lambda: strict.latestOffset(start, ReadAllAvailable()),
        lambda: strict.partitions(start, planned),
    ):
        with pytest.raises(OffsetOutOfRange, match=said):
            refused()
    with pytest.warns(UserWarning, match=said):
        assert between(lenient, start, planned) == [("orders-a", 1, 0)]
    with pytest.warns(UserWarning, match=said):
        after = lenient.latestOffset(start, ReadAllAvailable())
    with pytest.warns(UserWarning, match=said):
        found = between(lenient, start, after)
    assert found == [("orders-a", 1, 0), ("orders-b", 0, 2)]


def test_a_topic_deleted_under_a_stream_is_data_loss(root: QueueRoot, log: LogBuilder) -> None:
    log.append(log.topic("orders"), ["a"])
    strict = stream(root, subscribe="orders", startingOffsets="earliest")
    end = strict.latestOffset(strict.initialOffset(), ReadAllAvailable())
    TopicStore(root).delete("orders")
    with pytest.raises(OffsetOutOfRange, match="orders/0 are gone"):
        strict.latestOffset(end, ReadAllAvailable())
    with pytest.raises(OffsetOutOfRange, match="orders/0 was planned and is gone"):
        strict.partitions({}, end)
    lenient = stream(root, subscribe="orders", failOnDataLoss="false")
    with pytest.warns(UserWarning, match="are gone"):
        after = lenient.latestOffset(end, ReadAllAvailable())
    assert offsets(after) == {}


def test_records_that_expire_under_a_stream_are_data_loss(root: QueueRoot, log: LogBuilder) -> None:
    topic = log.topic("orders")
    log.append(topic, ["a", "b"])
    log.append(topic, ["c"])
    strict = stream(root, subscribe="orders", startingOffsets="earliest", maxOffsetsPerTrigger="1")
    lenient = stream(root, subscribe="orders", failOnDataLoss="false")
    begin = strict.latestOffset(strict.initialOffset(), ReadMaxRows(1))
    planned = strict.latestOffset(begin, ReadMaxRows(1))
    remove_oldest(root)
    with pytest.raises(OffsetOutOfRange, match=r"offsets 2 to 3 \(exclusive\), the query is at 1"):
        strict.latestOffset(begin, ReadMaxRows(1))
    with pytest.raises(OffsetOutOfRange, match="orders/0 has offsets 2 to 3"):
        strict.partitions(begin, planned)
    with pytest.warns(UserWarning, match="the query is at 1"):
        after = lenient.latestOffset(begin, ReadAllAvailable())
    with pytest.warns(UserWarning, match="may have been missed"):
        assert between(lenient, begin, after) == [("orders", 0, 2)]


def test_a_topic_that_was_created_again_fits_no_old_position(
    root: QueueRoot, log: LogBuilder
) -> None:
    log.append(log.topic("orders"), ["a", "b"])
    strict = stream(root, subscribe="orders", startingOffsets="earliest")
    end = strict.latestOffset(strict.initialOffset(), ReadAllAvailable())
    TopicStore(root).delete("orders")
    log.append(log.topic("orders"), ["new"] * 3)
    with pytest.raises(OffsetOutOfRange, match="created again"):
        strict.latestOffset(end, ReadAllAvailable())
    lenient = stream(root, subscribe="orders", failOnDataLoss="false")
    with pytest.warns(UserWarning, match="created again"):
        after = lenient.latestOffset(end, ReadAllAvailable())
    assert between(lenient, end, after) == [("orders", 0, n) for n in range(3)]
