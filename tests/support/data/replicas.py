"""A queue of old hours with groups, what happens to it, and what its replica is held to."""

from __future__ import annotations

from typing import Any

from lakequeue.clock import wall_micros
from lakequeue.records import Epoch, Offset, Partition, Stamp
from queue_tables.groups.fact_rows import to_arrow
from queue_tables.groups.facts import Fact, Kind, States
from queue_tables.groups.state import read_group_state
from queue_tables.log.marks import LogMarks
from queue_tables.log.reader import LogReader
from queue_tables.replica import without_shards
from queue_tables.root import QueueRoot
from queue_tables.schema.topic_rules import Topic
from queue_tables.shards.shards import ShardWriter
from queue_tables.topics import TopicStore
from tests.support.data.order_truth import Inbox, log_rows
from tests.support.data.wall import HOUR
from tests.support.runs.erase_process import run_erase
from tests.support.runs.maintenance_process import run_compaction, run_retention
from tests.support.runs.order_process import Orderer

NOW = wall_micros()
SECRET = b"alice-and-her-secret"
ALL = 100_000
Row = dict[str, Any]


def fill(root: QueueRoot, epoch: int, hours_ago: float, words: str, topics: list[Topic]) -> None:
    """A record of each word in each partition of `topics`, a commit a word; ordered then."""
    at = int(NOW - hours_ago * HOUR)
    inbox = Inbox(root, "n")
    orderer = Orderer(root, epoch, wall=lambda: at)
    for n, word in enumerate(words):
        records = [
            {
                "topic_id": topic.topic_id,
                "partition": partition,
                "value": SECRET if word == "!" else f"{word}{partition}".encode(),
                "key": b"alice" if word == "!" else b"k",
                "message_id": f"{topic.topic}-{partition}-{word}",
            }
            for topic in topics
            for partition in range(topic.partitions)
        ]
        inbox.commit(at + n, records)
        orderer.drain()


def commit(root: QueueRoot, topic: Topic, group: str, offset: int, mode: str = "stream") -> None:
    """A group goes on to `offset`, or in queue mode acks the record below it."""
    kind = Kind.COMMITTED if mode == "stream" else Kind.ACKED
    at = offset if mode == "stream" else offset - 1
    fact = Fact(
        kind, group, topic.topic, topic.topic_id, Partition(0), 0, Epoch(3), Offset(at), mode=mode,
        at=NOW,
    )  # fmt: skip
    ShardWriter.create(root, "journal", "c").append(to_arrow([fact]), Stamp(NOW))


def first_life(root: QueueRoot) -> Topic:
    """Two topics, eight hours ago."""
    orders = TopicStore(root).create("orders", partitions=2)[0]
    visits = TopicStore(root).create("visits", partitions=1, retention_ms=3_600_000 * 6)[0]
    fill(root, 1, 8, "ab!c", [orders, visits])
    commit(root, orders, "billing", 1)
    return orders


def second_life(root: QueueRoot) -> None:
    """More records, a new topic, positions; then old hours are rewritten, expired, erased."""
    topics = TopicStore(root)
    orders, visits = topics.get("orders"), topics.get("visits")
    fill(root, 2, 3, "def", [orders, visits, topics.create("late")[0]])
    commit(root, orders, "billing", 6)
    commit(root, orders, "workers", 3, "queue")
    run_compaction(root, NOW)
    run_retention(root, NOW)
    assert run_erase(root, "orders", "key = 'alice'")["records"] == 2


def rows_of(root: QueueRoot) -> dict[tuple[str, int], list[Row]]:
    """What readers get of each partition, from its first offset to its end."""
    reader = LogReader(root, ("key", "value", "headers", "message_id"))
    found: dict[tuple[str, int], list[Row]] = {}
    for topic in TopicStore(root).list():
        for partition in map(Partition, range(topic.partitions)):
            start = reader.first_offset(topic.topic_id, partition)
            rows = reader.read_range(topic.topic_id, partition, start, ALL).to_pylist()
            end = reader.end_offset(topic.topic_id, partition)
            assert [row["offset"] for row in rows] == list(range(start, end))
            found[topic.topic_id, int(partition)] = rows
    return found


def positions(root: QueueRoot) -> States:
    return {k: without_shards(s) for k, s in read_group_state(root).states.items()}


def is_prefix(replica: QueueRoot, source: QueueRoot) -> None:
    """What is in the replica is what the source has or had there, and nothing is beyond it."""
    theirs, reader = rows_of(source), LogReader(replica, ("offset",))
    assert len({_place(row) for row in log_rows(replica)}) == len(log_rows(replica))
    for place, rows in rows_of(replica).items():
        by_offset = {row["offset"]: row for row in theirs[place]}
        assert not rows or rows[-1]["offset"] <= max(by_offset)
        for row in rows:
            origin = by_offset.get(row["offset"], row)
            erased = [h["key"] for h in origin["headers"]] == ["lakequeue-erased"]
            assert row == origin or erased
    for key, state in read_group_state(replica).states.items():
        assert (state.committed_offset or 0) <= reader.end_offset(key.topic_id, key.partition)


def is_same(replica: QueueRoot, source: QueueRoot) -> None:
    """The replica has all of it, and nothing else."""
    assert [t.topic_id for t in TopicStore(replica).list()] == [
        t.topic_id for t in TopicStore(source).list()
    ]
    assert log_rows(replica) == log_rows(source)
    assert rows_of(replica) == rows_of(source)
    assert positions(replica) == positions(source)
    marks = {n: v for n, v in LogMarks(replica).read().items() if not n.startswith("mirror")}
    assert marks == dict(LogMarks(source).read())


def _place(row: Row) -> tuple[str, int, int]:
    return row["topic_id"], row["partition"], row["offset"]
