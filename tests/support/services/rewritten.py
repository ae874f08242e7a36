"""A log that another engine has rewritten, and every way of the queue itself to read it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import httpx2

from coordination.embedded import EmbeddedZooKeeper
from coordination.zookeeper.session import Session
from lakequeue.records import Offset, Partition
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.schema.topic_rules import Topic
from tests.support.data.log_builder import LogBuilder
from tests.support.services.consumer_node import HttpMember, Queue, describe
from tests.support.services.zookeeper import FAST, wait_for

RECORDS = 60
"""Of each of two partitions, in twelve commits."""
GONE = {3, 17, 18, 42, 59}
"""What statements that delete take of partition 0."""
GAPS = [(3, 4), (17, 19), (42, 43), (59, 60)]
Found = dict[int, list[int]]
"""Partition → offsets, as they came."""


def queue_of(root: QueueRoot, zookeeper: EmbeddedZooKeeper) -> tuple[Queue, Topic]:
    log = LogBuilder(root)
    topic = log.topic("orders", partitions=2)
    for n in range(12):
        some = [f"v{n * 5 + i}" for i in range(5)]
        log.append_many(topic, {0: some, 1: some})
    session = Session(zookeeper.hosts, root.queue_id, "order", FAST)
    return Queue(root, zookeeper, session, log), topic


def expected(gone: set[int]) -> Found:
    return {0: [n for n in range(RECORDS) if n not in gone], 1: list(range(RECORDS))}


def by_partition(pairs: Iterable[tuple[int, int]]) -> Found:
    found: Found = defaultdict(list)
    for partition, offset in pairs:
        found[partition].append(offset)
    return dict(found)


def in_files(root: QueueRoot, topic: Topic) -> Found:
    reader = LogReader(root)
    found: list[tuple[int, int]] = []
    for partition in range(2):
        at = 0
        while rows := reader.read_range(
            topic.topic_id, Partition(partition), Offset(at), 7
        ).to_pylist():
            found += [(partition, row["offset"]) for row in rows]
            at = found[-1][1] + 1
    return by_partition(found)


def in_browser(url: str) -> Found:
    found: list[tuple[int, int]] = []
    for partition in range(2):
        at = 0
        while at < RECORDS:
            query = {"partition": partition, "offset": at, "max": 9}
            answer = httpx2.get(f"{url}/v1/topics/orders/records", params=query, timeout=30)
            assert answer.status_code == 200, answer.text
            found += [(partition, record["offset"]) for record in answer.json()["records"]]
            at = answer.json()["next_offset"]
    return by_partition(found)


def in_group(url: str, topic: Topic, mode: str, count: int) -> Found:
    found: list[tuple[int, int]] = []
    options = {"mode": mode, "from": "earliest"}
    with HttpMember(url, topic, f"of-{mode}", options=options) as member:
        while len(found) < count:
            records = member.poll(max_records=11)
            found += [(record["partition"], record["offset"]) for record in records]
            if records:
                assert member.ack(records).status_code == 200

        def is_done() -> bool:
            assert member.poll(wait_ms=100) == []
            return all(row["lag"] == 0 for row in describe(url, f"of-{mode}").values())

        wait_for(is_done, f"no lag of the {mode} group")
    return by_partition(found if mode == "stream" else sorted(found))
