"""The queue on an ensemble of three ZooKeeper servers, whose leader is killed under load."""

from __future__ import annotations

from pathlib import Path

import pytest

from history_checker import GroupRequirements, Requirements, check
from history_checker.history import load
from history_checker.load import LoadConsumer, LoadProducer, wait_until
from history_checker.truth import truth
from lakequeue.client.admin import Admin
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions
from tests.support.services.ensemble import Ensemble

pytestmark = [
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.timeout(400),
]
RATE = 100


def test_a_killed_server_of_three_costs_nothing(tmp_path: Path, history: Path) -> None:
    with (
        Ensemble(tmp_path / "ensemble") as ensemble,
        Cluster(ClusterOptions(root=str(tmp_path / "root"), zookeeper=ensemble.hosts)) as cluster,
    ):
        cluster.wait_ready()
        pids = [child.pid for child in cluster.children]
        topic = group = "ensemble"
        with Admin(cluster.ingest_urls, cluster.consumer_urls, timeout_s=30) as admin:
            admin.create_topic(topic, partitions=2)
            consumer = LoadConsumer(cluster.consumer_urls, topic, group, history, "c0")
            producer = LoadProducer(cluster.ingest_urls, topic, history, "p0", RATE).start()
            try:
                wait_until("records come", lambda: consumer.received() >= 2 * RATE, 90)
                ensemble.kill(ensemble.leader())
                before = consumer.received()
                wait_until("they go on", lambda: consumer.received() >= before + 4 * RATE, 90)
                producer.stop()

                def lag() -> int:
                    partitions = admin.group(group).partitions
                    return producer.acknowledged - sum(p.committed_offset or 0 for p in partitions)

                wait_until("all is acked", lambda: lag() == 0, 90)
            finally:
                consumer.stop()
        assert [child.pid for child in cluster.children] == pids, "no process had to start again"
        events = [*load(history.glob("*.jsonl")), *truth(cluster.root, [topic], [group])]
    verdict = check(events, Requirements({group: GroupRequirements(topics=(topic,), drained=True)}))
    assert verdict.ok, str(verdict)
    assert verdict.stored == producer.acknowledged >= 6 * RATE
