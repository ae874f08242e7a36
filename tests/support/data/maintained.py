"""Queues for the tests of maintenance, and what is read of them."""

from __future__ import annotations

from typing import Any

from lakequeue.clock import wall_micros
from lakequeue.records import Epoch, Offset, Partition, Stamp
from queue_tables.groups.fact_rows import to_arrow
from queue_tables.groups.facts import Fact, Kind
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.schema.topic_rules import Topic
from queue_tables.shards.shards import ShardWriter
from queue_tables.topics import TopicStore
from tests.support.data.order_truth import Inbox
from tests.support.data.wall import Wall
from tests.support.runs.order_process import Orderer

NOW = wall_micros()
"""When the tests of a run began."""
DAY_MS = 86_400_000


def two_topics(root: QueueRoot, time: Wall, batches: int = 12) -> tuple[Topic, Topic]:
    """Ordered by the order job's own parts: each log file holds both topics, two partitions."""
    topics = TopicStore(root)
    first, second = (topics.create(name, partitions=2)[0] for name in ("orders", "visits"))
    inbox, orderer = Inbox(root, "n"), Orderer(root, 1, wall=time)
    for n in range(batches):
        inbox.commit(
            time(),
            [
                {"topic_id": topic.topic_id, "partition": p, "value": b"%d-%d" % (n, p)}
                for topic in (first, second)
                for p in (0, 1)
            ],
        )
        orderer.drain()
    return first, second


def read(reader: LogReader, topic: Topic, partition: int = 0, start: int = 0) -> list[bytes]:
    rows = reader.read_range(topic.topic_id, Partition(partition), Offset(start), 10_000)
    values: list[bytes] = rows["value"].to_pylist()
    return values


def a_topic(root: QueueRoot, name: str = "orders", **config: Any) -> Topic:
    return TopicStore(root).create(name, **({"partitions": 1, "retention_ms": DAY_MS} | config))[0]


def committed(
    root: QueueRoot, topic: Topic, group: str, offset: int | None, at: int = NOW
) -> ShardWriter:
    """A fact in a journal: the group's position, or (None) that it has taken the partition."""
    writer = ShardWriter.create(root, "journal", "c")
    kind = Kind.TAKEN if offset is None else Kind.COMMITTED
    fact = Fact(
        kind,
        group,
        topic.topic,
        topic.topic_id,
        Partition(0),
        0,
        Epoch(1),
        None if offset is None else Offset(offset),
        at=at,
    )
    writer.append(to_arrow([fact]), Stamp(NOW))
    return writer
