"""Nodes come and go under load, and a topic grows: 2 → 3 → 2 of each service, none of them kept.

Clients are given one URL each, of a node that is taken away later. Nothing may be lost, doubled or
misordered, no error may reach an application, and what need not move is not touched. The order job
runs in this process: Spark has no part in this.
"""

from __future__ import annotations

import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from coordination.zookeeper.notifications import Notifier
from coordination.zookeeper.session import Session
from history_checker import GroupRequirements, Requirements, check
from history_checker.history import load
from history_checker.load import LoadConsumer, LoadProducer, wait_until
from history_checker.truth import truth
from lakequeue.client.admin import Admin
from lakequeue.wire import GroupDescription
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions
from queue_tables.root import QueueRoot
from tests.support.services.order_thread import ordering

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow, pytest.mark.faults, pytest.mark.timeout(400)]
RATE = 100
PARTITIONS = 24
"""So many that each of three nodes is first for one of them, whatever ports they have."""
TOPIC = GROUP = "scaled"


def accepted(url: str) -> float:
    """Records that an ingest node has acknowledged."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:  # noqa: S310 - our own
        lines = answer.read().decode().splitlines()
    name = "lakequeue_ingest_records_total"
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def described(cluster: Cluster) -> GroupDescription:
    """The group, as told by nodes that are there now."""
    with Admin(cluster.ingest_urls, cluster.consumer_urls, timeout_s=30) as admin:
        return admin.group(GROUP)


def epochs(cluster: Cluster) -> dict[int, int | None]:
    return {row.partition: row.epoch for row in described(cluster).partitions}


def committed(cluster: Cluster) -> list[int]:
    """Position of each partition."""
    return [row.committed_offset or 0 for row in described(cluster).partitions]


def most_crowded(cluster: Cluster) -> str:
    """The consumer-service node with the most members."""
    ((node, _),) = Counter(member.node for member in described(cluster).members).most_common(1)
    assert node is not None
    return node


@contextmanager
def ordered_here(cluster: Cluster) -> Iterator[None]:
    """The order job, in a thread, with a notification that wakes the nodes."""
    root = QueueRoot.open(cluster.root)
    session = Session(cluster.zookeeper, root.queue_id, "order", cluster.coordination)
    session.start()
    notifier = Notifier(session, "log").start()
    try:
        with ordering(root, notifier=notifier):
            yield
    finally:
        notifier.close()
        session.stop()


def test_nodes_and_partitions_come_and_go_under_load(tmp_path: Path, history: Path) -> None:
    root = str(tmp_path / "root")
    options = ClusterOptions(root=root, ingest_nodes=2, consumer_nodes=2, drivers=0)
    with Cluster(options) as cluster, ExitStack() as stack:
        cluster.wait_ready()
        stack.enter_context(ordered_here(cluster))
        with Admin(cluster.ingest_urls) as admin:
            admin.create_topic(TOPIC, partitions=PARTITIONS)
        consumers = [
            LoadConsumer(cluster.consumer_urls[:1], TOPIC, GROUP, history, f"c{i}")
            for i in range(3)
        ]
        producers = [
            LoadProducer(cluster.ingest_urls[:1], TOPIC, history, f"p{i}", RATE).start()
            for i in range(2)
        ]

        def more(count: int) -> None:
            start = sum(c.received() for c in consumers)
            done = start + count
            wait_until(
                f"{count} more come", lambda: sum(c.received() for c in consumers) >= done, 90
            )

        def all_work() -> bool:
            # Their fair shares: fewer, and some are still on their way.
            shares = Counter(row.owner for row in described(cluster).partitions)
            fair = (
                len(shares) == len(consumers) and max(shares.values()) - min(shares.values()) <= 1
            )
            return fair and None not in shares

        try:
            more(2 * RATE)
            wait_until("every consumer has partitions", all_work, 90)
            assert accepted(cluster.url("ingest-2")) > 0, "a node that nobody was told of"
            held = epochs(cluster)
            third = cluster.add("ingest")
            cluster.add("consumer")
            cluster.wait_ready()
            wait_until("the new node is used", lambda: accepted(cluster.url(third)) > 0, 90)
            assert epochs(cluster) == held, "a node that comes takes nothing from anybody"

            with Admin(cluster.ingest_urls) as admin:
                admin.alter_topic(TOPIC, partitions=PARTITIONS + 8)
            wait_until(
                "new partitions are consumed", lambda: any(committed(cluster)[PARTITIONS:]), 90
            )

            cluster.remove("ingest-1")
            cluster.remove(most_crowded(cluster))
            more(4 * RATE)
            for producer in producers:
                producer.stop()
            sent = sum(producer.acknowledged for producer in producers)
            wait_until("all is acked", lambda: sum(committed(cluster)) == sent, 90)
        finally:
            for consumer in consumers:
                consumer.stop()
        assert [consumer.process.returncode for consumer in consumers] == [0, 0, 0]
        events = [*load(history.glob("*.jsonl")), *truth(cluster.root, [TOPIC], [GROUP])]
    verdict = check(events, Requirements({GROUP: GroupRequirements(topics=(TOPIC,), drained=True)}))
    assert verdict.ok, str(verdict)
    assert verdict.sent == verdict.stored == sent, "no send failed"
