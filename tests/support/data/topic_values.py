"""A topic for a test; everything that a topic holds, once all that was sent is ordered."""

from __future__ import annotations

from typing import Any

from lakequeue.records import Offset, Partition
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.schema.topic_rules import Topic
from queue_tables.topics import TopicStore
from tests.support.runs.order_process import Orderer


def new_topic(root: QueueRoot, name: str = "orders", partitions: int = 1) -> str:
    """Create a topic; its id."""
    return str(TopicStore(root).create(name, partitions=partitions)[0].topic_id)


def ordered(root: QueueRoot, topic: Topic, epoch: int = 1) -> list[dict[str, Any]]:
    """All records of the topic by partition and offset, after everything was ordered."""
    Orderer(root, epoch).drain()
    log = LogReader(root)
    rows: list[dict[str, Any]] = []
    for p in range(topic.partitions):
        count = int(log.end_offset(topic.topic_id, Partition(p)))
        if count:
            table = log.read_range(topic.topic_id, Partition(p), Offset(0), count, 1 << 30)
            rows += table.to_pylist()
    return rows
