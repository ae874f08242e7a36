"""Under load, each kind of process is killed with SIGKILL and comes back: nothing is lost.

Two producers send at a steady rate, three consumers receive and ack; the victim dies in the
middle. The history of all of them, with a final read of `log`, is judged by the checker.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from history_checker import GroupRequirements, Requirements, check
from history_checker.history import load
from history_checker.load import LoadConsumer, LoadProducer, wait_until
from history_checker.truth import truth
from lakequeue.client.admin import Admin
from lakequeue_cli.supervisor.cluster import Cluster
from tests.support.kinds import one_now

RATE = 150
PARTITIONS = 4

Strike = Callable[[Cluster, list[LoadConsumer]], None]


def _child(name: str) -> Strike:
    def strike(cluster: Cluster, _: list[LoadConsumer]) -> None:
        cluster.kill(name)
        cluster.wait_ready()

    return strike


def _order_leader(cluster: Cluster, _: list[LoadConsumer]) -> None:
    leader = cluster.leader()
    assert leader is not None
    cluster.kill(leader)
    cluster.wait_leader(other_than=leader)


def _consumer(_: Cluster, consumers: list[LoadConsumer]) -> None:
    consumers[0].kill()


STRIKES: dict[str, Strike] = {
    "ingest": _child("ingest-1"),
    "order_leader": _order_leader,
    "consumer_service": _child("consumer-1"),
    "zookeeper": _child("zookeeper"),
    "consumer": _consumer,
}


@pytest.mark.spark
@pytest.mark.timeout(240)
@pytest.mark.parametrize("victim", one_now(STRIKES, "order_leader"))
def test_nothing_is_lost_doubled_or_reordered_when_it_is_killed(
    victim: str, cluster: Cluster, admin: Admin, history: Path
) -> None:
    cluster.wait_ready()  # whom the test before this one killed is back
    topic = group = f"kill-{victim}"
    admin.create_topic(topic, partitions=PARTITIONS)
    consumers = [
        LoadConsumer(cluster.consumer_urls, topic, group, history, f"c{i}") for i in range(3)
    ]
    producers = [
        LoadProducer(cluster.ingest_urls, topic, history, f"p{i}", RATE).start() for i in range(2)
    ]
    try:
        _received_more(consumers, 2 * RATE)
        STRIKES[victim](cluster, consumers)
        survivors = [c for c in consumers if c.process.poll() is None]
        _received_more(survivors, 4 * RATE)
        for producer in producers:
            producer.stop()
        acknowledged = sum(p.acknowledged for p in producers)
        wait_until("all is ordered and acked", lambda: _acked(admin, group) >= acknowledged, 90)
    finally:
        for consumer in consumers:
            consumer.stop()

    events = [*load(history.glob("*.jsonl")), *truth(cluster.root, [topic], [group])]
    verdict = check(events, Requirements({group: GroupRequirements(topics=(topic,), drained=True)}))
    print(verdict)
    assert verdict.ok, str(verdict)
    assert verdict.stored >= 6 * RATE
    if victim == "consumer":
        assert consumers[0].process.returncode == -9


def _received_more(consumers: list[LoadConsumer], count: int) -> None:
    start = sum(c.received() for c in consumers)
    wait_until(
        f"{count} more records are received",
        lambda: sum(c.received() for c in consumers) >= start + count,
        90,
    )


def _acked(admin: Admin, group: str) -> int:
    """Records behind the group's committed positions, once it has no lag; -1 before."""
    partitions = admin.group(group).partitions
    return -1 if any(p.lag for p in partitions) else sum(p.end_offset for p in partitions)
