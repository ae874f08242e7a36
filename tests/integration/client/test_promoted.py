"""A promoted replica with real nodes: groups and producers go on there, and in the source."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from coordination.zookeeper.notifications import Notifier
from coordination.zookeeper.session import Session
from lakequeue import Admin, Consumer, Producer
from queue_tables.root import QueueRoot
from tests.support.data.log_builder import LogBuilder
from tests.support.runs.mirror_process import run_job, run_mirror
from tests.support.services.consumer_node import NodeProcess, Queue
from tests.support.services.ingest_service import IngestService
from tests.support.services.order_thread import ordering
from tests.support.services.small_cluster import COUNT, Cluster
from tests.support.services.zookeeper import FAST

pytestmark = pytest.mark.timeout(400)


def consume(urls: str, count: int) -> list[int]:
    """So many values of `in` in the group `g`, acknowledged."""
    values: list[int] = []
    with Consumer("in", "g", urls=urls) as consumer:
        for message in consumer:
            values.append(int(message.value))
            message.ack()
            if len(values) == count:
                break
    return values


def test_groups_and_producers_go_on_in_a_promoted_replica_and_in_the_source(
    own_cluster: Cluster, start_node: Callable[..., NodeProcess], tmp_path: Path
) -> None:
    cluster = own_cluster
    source = cluster.queue.root
    before = consume(cluster.node.url, 25)
    to = str(tmp_path / "replica")
    run_mirror(source, to)
    assert run_job(source.uri, "--to", to, "--promote")["promoted"]
    root = QueueRoot.open(to, create=False)
    with ExitStack() as stack:
        # The same ensemble: what stands there is told apart by the queues' ids.
        session = Session(cluster.queue.zookeeper.hosts, root.queue_id, "order", FAST)
        session.start()
        stack.callback(session.stop)
        notifier = Notifier(session, "log").start()
        stack.callback(notifier.close)
        queue = Queue(root, cluster.queue.zookeeper, session, LogBuilder(root, notifier))
        ingest = stack.enter_context(IngestService(Path(to)))
        stack.enter_context(ordering(root, epoch=2, notifier=notifier))
        node = start_node(queue, "there")
        url = str(ingest.ready["url"])
        with Producer(url, acks="ordered") as producer:
            sent = [producer.send("in", COUNT + n, partition=n % 2) for n in range(10)]
        assert {s.result(0).offset for s in sent} == set(range(COUNT // 2, COUNT // 2 + 5))
        there = consume(node.url, COUNT + 10 - 25)
        assert sorted(before + there) == list(range(COUNT + 10))
        with Admin(url, node.url) as admin:
            lags = [p.lag for p in admin.group("g").partitions]
        assert lags == [0, 0]
    cluster.produce(2 * COUNT, 2 * COUNT + 2)
    here = consume(cluster.node.url, COUNT - 25 + 2)
    assert sorted(before + here) == [*range(COUNT), 2 * COUNT, 2 * COUNT + 1]
