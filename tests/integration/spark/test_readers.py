"""The readers without Spark around them: what they plan, what they read, what they refuse."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructType

from lakequeue.clock import HybridClock
from lakequeue.errors import InvalidRequest, OffsetOutOfRange, RootUnusable, UnknownTopic
from lakequeue.records import Epoch, Offset, Partition
from pyspark_lakequeue.source import group_mirror
from pyspark_lakequeue.source.batch_reader import BatchReader
from pyspark_lakequeue.source.options import read_options
from queue_tables.groups.fact_rows import to_arrow
from queue_tables.groups.facts import Fact, Kind
from queue_tables.groups.state import read_group_state
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import ShardWriter
from queue_tables.topics import TopicStore
from tests.support.data.log_builder import LogBuilder
from tests.support.spark.source_readers import (
    Reads,
    batch,
    between,
    offsets,
    rows_of,
    stream,
)

# -- batch ----------------------------------------------------------------------------------------


def test_a_batch_reads_every_record_as_kafka_s_source_gives_it(
    root: QueueRoot, log: LogBuilder
) -> None:
    topic = log.topic("orders", 2)
    log.append_many(topic, {0: ["a", "b"], 1: ["c"]}, timestamp=1_700_000_000_123_456)
    log.append(topic, ["d"])
    found = rows_of(batch(root, subscribe="orders"))
    assert [(r["partition"], r["offset"], r["value"], r["key"]) for r in found[:3]] == [
        (0, 0, b"a", b"k"),
        (0, 1, b"b", b"k"),
        (1, 0, b"c", b"k"),
    ]
    assert {r["topic"] for r in found} == {"orders"}
    assert {r["timestampType"] for r in found} == {0}
    assert found[0]["timestamp"].timestamp() == 1_700_000_000.123456
    assert len(found) == 4


def test_only_the_files_that_hold_the_offsets_are_read_each_once(
    root: QueueRoot, log: LogBuilder, reads: Reads
) -> None:
    orders, other = log.topic("orders", 2), log.topic("other")
    for n in range(10):
        log.append_many(orders, {0: [f"{n}"] * 5, 1: [f"{n}"]})
        log.append(other, ["x"])
    first, last = '{"orders":{"0":22,"1":10}}', '{"orders":{"0":31,"1":10}}'
    reader = batch(root, subscribe="orders", startingOffsets=first, endingOffsets=last)
    parts = reader.partitions()
    planned = Counter(reads.files)
    reads.files.clear()
    found = [r["offset"] for p in parts for b in reader.read(p) for r in b.to_pylist()]
    assert found == list(range(22, 31))
    # Offsets 22 to 30 of partition 0 are in the commits 4, 5 and 6.
    assert list(reads.files.values()) == [1, 1, 1]
    looked_at = planned.keys() - reads.files.keys()
    assert len(looked_at) == 1, "planning looks at the oldest file too, for what is still there"


def test_parts_are_as_many_as_asked_for_and_none_is_read_twice(
    root: QueueRoot, log: LogBuilder
) -> None:
    topic = log.topic("orders", 3)
    for _ in range(4):
        log.append_many(topic, {0: ["v"] * 7, 1: ["v"] * 2})
    whole = rows_of(batch(root, subscribe="orders"))
    for action in ("1", "5", "36", "400"):
        reader = batch(root, subscribe="orders", minPartitions=action)
        assert len(reader.partitions()) >= min(int(action), 36)
        found = rows_of(reader)
        key = ["partition", "offset"]
        assert sorted(found, key=lambda r: [r[k] for k in key]) == sorted(
            whole, key=lambda r: [r[k] for k in key]
        )


def test_headers_come_when_asked_for_and_are_null_where_there_are_none(
    root: QueueRoot, log: LogBuilder
) -> None:
    log.append(log.topic("orders"), ["a"])
    assert "headers" not in rows_of(batch(root, subscribe="orders"))[0]
    assert rows_of(batch(root, subscribe="orders", includeHeaders="true"))[0]["headers"] is None


@pytest.mark.parametrize("columns", ["value", "offset,timestampType", "timestampType", "headers"])
def test_only_the_columns_that_were_asked_for_are_read(
    root: QueueRoot, log: LogBuilder, columns: str
) -> None:
    topic = log.topic("orders", 2)
    for n in range(4):
        log.append(topic, [f"v{n}"], n % 2)
    every = rows_of(batch(root, subscribe="orders", includeHeaders="true"))
    some = rows_of(batch(root, subscribe="orders", columns=columns))
    names = columns.split(",")
    assert [list(row) for row in some] == [names] * 4
    assert some == [{name: row[name] for name in names} for row in every]


def test_topics_are_chosen_by_pattern_list_and_assignment(root: QueueRoot, log: LogBuilder) -> None:
    for name in ("orders-eu", "orders-us", "other"):
        log.append_many(log.topic(name, 2), {0: ["a"], 1: ["b"]})
    found = rows_of(batch(root, subscribePattern="orders-.*"))
    assert Counter(r["topic"] for r in found) == {"orders-eu": 2, "orders-us": 2}
    assert rows_of(batch(root, subscribePattern="orders")) == [], "the whole name must match"
    found = rows_of(batch(root, assign='{"other":[1],"orders-us":[0]}'))
    assert {(r["topic"], r["partition"]) for r in found} == {("other", 1), ("orders-us", 0)}


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"subscribe": "nowhere"}, UnknownTopic, "nowhere"),
        ({"assign": '{"orders":[7]}'}, InvalidRequest, "partition 7 does not exist"),
        (
            {"subscribe": "orders", "startingOffsets": '{"orders":{"0":0}}'},
            InvalidRequest,
            "missing orders/1",
        ),
        (
            {"subscribe": "orders", "startingOffsets": '{"orders":{"0":0,"1":0,"2":0}}'},
            InvalidRequest,
            "not read here: orders/2",
        ),
        (
            {"subscribe": "orders", "startingOffsets": '{"orders":{"0":9,"1":0}}'},
            OffsetOutOfRange,
            "orders/0 has offsets 0 to 2",
        ),
        (
            {"subscribe": "orders", "endingOffsets": '{"orders":{"0":9,"1":0}}'},
            OffsetOutOfRange,
            "orders/0 has offsets 0 to 2",
        ),
    ],
)
def test_what_is_not_there_is_refused_when_the_batch_is_planned(
    root: QueueRoot, log: LogBuilder, given: dict[str, str], error: type[Exception], said: str
) -> None:
    log.append(log.topic("orders", 2), ["a", "b"])
    with pytest.raises(error, match=said):
        batch(root, **given).partitions()


def test_without_failing_on_data_loss_a_batch_takes_what_there_is(
    root: QueueRoot, log: LogBuilder
) -> None:
    log.append(log.topic("orders"), ["a", "b"])
    reader = batch(
        root, subscribe="orders", endingOffsets='{"orders":{"0":9}}', failOnDataLoss="false"
    )
    with pytest.warns(UserWarning, match="may have been missed"):
        assert len(rows_of(reader)) == 2


def test_a_root_without_a_queue_is_named_and_nothing_is_created(tmp_path: Path) -> None:
    options = {"root": str(tmp_path / "nothing"), "subscribe": "a"}
    reader = BatchReader(read_options(options, streaming=False), StructType())
    with pytest.raises(RootUnusable, match="there is no queue"):
        reader.partitions()
    assert not (tmp_path / "nothing").exists()


# -- stream ---------------------------------------------------------------------------------------


def test_a_stream_goes_on_from_offset_to_offset(root: QueueRoot, log: LogBuilder) -> None:
    topic = log.topic("orders", 2)
    log.append_many(topic, {0: ["a"], 1: ["b"]})
    reader = stream(root, subscribe="orders", startingOffsets="earliest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert between(reader, start, end) == [("orders", 0, 0), ("orders", 1, 0)]
    assert reader.latestOffset(end, ReadAllAvailable()) is end, "nothing new"
    log.append(topic, ["c"], 1)
    after = reader.latestOffset(end, ReadAllAvailable())
    assert between(reader, end, after) == [("orders", 1, 1)]
    assert offsets(after) == {"orders": {"0": 1, "1": 2}}


def test_where_a_stream_began_at_latest_is_kept_before_there_is_any_record(
    root: QueueRoot, log: LogBuilder
) -> None:
    topic = log.topic("orders")
    log.append(topic, ["before"])
    reader = stream(root, subscribe="orders")
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadAllAvailable())
    assert first != start, "an empty first batch: Spark keeps its end"
    assert between(reader, start, first) == []
    log.append(topic, ["while it was stopped"])
    again = stream(root, subscribe="orders")
    assert between(again, first, again.latestOffset(first)) == [("orders", 0, 1)]


def test_a_first_batch_that_is_run_again_is_the_same_although_latest_has_moved(
    root: QueueRoot, log: LogBuilder
) -> None:
    topic = log.topic("orders")
    reader = stream(root, subscribe="orders")
    start = reader.initialOffset()
    log.append(topic, ["planned"])
    end = reader.latestOffset(start, ReadAllAvailable())
    log.append(topic, ["later"])
    again = stream(root, subscribe="orders")
    moved = again.initialOffset()
    assert offsets(moved) == {"orders": {"0": 2}}
    assert between(again, moved, end) == [("orders", 0, 0)]


def test_a_limit_admits_so_many_spread_over_the_partitions(
    root: QueueRoot, log: LogBuilder
) -> None:
    topic = log.topic("orders", 2)
    log.append_many(topic, {0: ["v"] * 30, 1: ["v"] * 10})
    reader = stream(root, subscribe="orders", startingOffsets="earliest", maxOffsetsPerTrigger="8")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(8)
    start = reader.initialOffset()
    end = reader.latestOffset(start, limit)
    assert offsets(end) == {"orders": {"0": 6, "1": 2}}
    everything = reader.latestOffset(end, ReadAllAvailable())
    assert offsets(everything) == {"orders": {"0": 30, "1": 10}}, "Spark's word goes before ours"


def test_the_first_batch_comes_at_once_and_then_too_few_records_wait(
    root: QueueRoot, log: LogBuilder
) -> None:
    topic = log.topic("orders")
    log.append(topic, ["v"] * 2)
    given = {"subscribe": "orders", "startingOffsets": "earliest", "minOffsetsPerTrigger": "3"}
    patient = stream(root, **given)
    limit = patient.getDefaultReadLimit()
    first = patient.latestOffset(patient.initialOffset(), limit)
    assert offsets(first) == {"orders": {"0": 2}}, "also if it is small"
    log.append(topic, ["v"])
    assert patient.latestOffset(first, limit) is first
    log.append(topic, ["v"] * 2)
    end = patient.latestOffset(first, limit)
    assert offsets(end) == {"orders": {"0": 5}}
    log.append(topic, ["v"])
    assert patient.latestOffset(end, limit) is end
    restarted = stream(root, **given)
    assert offsets(restarted.latestOffset(end, limit)) == {"orders": {"0": 6}}
    hasty = stream(root, **given, maxTriggerDelay="0ms")
    more = hasty.latestOffset(end, limit)
    log.append(topic, ["v"])
    assert offsets(hasty.latestOffset(more, limit)) == {"orders": {"0": 7}}


def test_the_option_that_was_given_is_the_one_that_is_named(
    root: QueueRoot, log: LogBuilder
) -> None:
    log.append(log.topic("orders"), ["v"])
    late = "4000000000000"
    for given in (
        {"startingTimestamp": late},
        {"startingOffsetsByTimestamp": f'{{"orders":{{"0":{late}}}}}'},
    ):
        (name,) = given
        with pytest.raises(InvalidRequest, match=f"option {name}: no record") as refused:
            batch(root, subscribe="orders", **given).partitions()
        assert refused.value.extra["field"] == name


def test_available_now_ends_at_what_was_there_whatever_the_limits(
    root: QueueRoot, log: LogBuilder
) -> None:
    topic = log.topic("orders")
    log.append(topic, ["v"] * 5)
    reader = stream(
        root,
        subscribe="orders",
        startingOffsets="earliest",
        maxOffsetsPerTrigger="3",
        minOffsetsPerTrigger="3",
    )
    reader.prepareForTriggerAvailableNow()
    log.append(topic, ["later"] * 5)
    at, ends = reader.initialOffset(), []
    while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) is not at:
        ends.append(offsets(end)["orders"]["0"])
        at = end
    assert ends == [3, 5]


def test_partitions_and_topics_that_are_new_begin_at_their_first_record(
    root: QueueRoot, log: LogBuilder
) -> None:
    log.append(log.topic("orders-a"), ["a"])
    reader = stream(root, subscribePattern="orders-.*")
    start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    TopicStore(root).alter("orders-a", partitions=2)
    topic = TopicStore(root).get("orders-a")
    log.append(topic, ["b"], 1)
    log.append(log.topic("orders-b"), ["c"])
    end = reader.latestOffset(start, ReadAllAvailable())
    assert between(reader, start, end) == [("orders-a", 1, 0), ("orders-b", 0, 0)]


def test_a_group_id_lets_the_lag_show(
    root: QueueRoot, log: LogBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = log.topic("orders", 2)
    log.append_many(topic, {0: ["v"] * 4, 1: ["v"]})
    reader = stream(
        root, **{"subscribe": "orders", "startingOffsets": "earliest", "group.id": "nightly"}
    )
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert not read_group_state(root, "nightly").states, "no batch has run"
    log.append(topic, ["v"])
    reader.latestOffset(reader.latestOffset(end, ReadAllAvailable()), ReadAllAvailable())
    states = read_group_state(root, "nightly").states
    assert {key.partition: state.committed_offset for key, state in states.items()} == {0: 5, 1: 1}
    # Somebody seeks meanwhile. The query goes on from its checkpoint, and says so again.
    sought = Fact(
        Kind.SEEK, "nightly", "orders", topic.topic_id, Partition(0), 1, Epoch(1), Offset(0), "ada"
    )
    journal = ShardWriter.create(root, "journal", "node-1")
    journal.append(to_arrow([sought]), HybridClock().next())
    monkeypatch.setattr(group_mirror, "LOOK_S", 0.0)
    log.append(topic, ["v"])
    reader.latestOffset(reader.latestOffset(end, ReadAllAvailable()), ReadAllAvailable())
    states = read_group_state(root, "nightly").states
    assert {key.partition: state.committed_offset for key, state in states.items()} == {0: 6, 1: 1}
