"""A member that waits, for a partition or for records: its node is ready, and tells it in time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import pytest

from consumer_service.calls.groups import Groups
from consumer_service.node import Node
from consumer_service.ownership.partition_states import PartitionState
from lakequeue.metrics.consumer import PARKED_POLLS, TAIL_BYTES
from lakequeue.metrics.declaring import Metric
from lakequeue.records import Partition, TopicPartition
from lakequeue.wire import JoinRequest
from tests.support.faults.patching import environ
from tests.support.faults.tcp_proxy import Line, TcpProxy
from tests.support.services.consumer_node import HttpMember, NodeProcess, Queue
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper


def test_what_it_waits_for_is_in_memory_before_its_holder_dies(
    own_queue: Queue, own_node: Node, start_node: type[NodeProcess]
) -> None:
    topic, other = own_queue.log.topic(), own_queue.log.topic()
    holding = start_node(own_queue, "holding")
    with HttpMember(holding.url, topic) as holder:
        holder.wait_owned(1)
        Groups(own_node).join(holder.group, JoinRequest(topics=[topic.topic]), "test")
        for n in range(3):
            own_queue.log.append_many(topic, {0: [f"v{n}"]})
            own_queue.log.append_many(other, {0: ["nobody's"]})
        place, elsewhere = (TopicPartition(t.topic_id, Partition(0)) for t in (topic, other))
        wait_for(lambda: own_node.tailer.end(elsewhere) == 3, "all is seen")
        rows = own_node.segments.read(place, 0, 10, 1 << 20)
        assert rows is not None
        assert rows.num_rows == 3
        assert own_node.segments.read(elsewhere, 0, 10, 1 << 20) is None


def test_all_that_a_dead_node_held_is_taken_over_at_once(
    own_queue: Queue, own_node: Node, start_node: type[NodeProcess]
) -> None:
    topic = own_queue.log.topic(partitions=4)
    own_queue.log.append_many(topic, {p: ["v"] for p in range(4)})
    dying = start_node(own_queue, "dying")
    taken: list[int] = []
    run = own_node.reconciler._takeover.run

    def counted(leased, start_of):  # type: ignore[no-untyped-def]
        taken.append(len(leased))
        run(leased, start_of)

    def owned() -> int:
        every = own_node.owned_partitions.all()
        return sum(owned.state is PartitionState.OWNED for owned in every)

    with pytest.MonkeyPatch.context() as patch, HttpMember(dying.url, topic) as holder:
        patch.setattr(own_node.reconciler._takeover, "run", counted)
        holder.wait_owned(4)
        Groups(own_node).join(holder.group, JoinRequest(topics=[topic.topic]), "test")
        wait_for(lambda: sum(taken) == 2, "it has its share")
        del taken[:]
        dying.kill()
        # As its client does: one partition is given to this one while its lease is still held.
        Groups(own_node).join(holder.group, JoinRequest(topics=[topic.topic]), "test")
        wait_for(lambda: owned() == 4, "it has the rest")
        # Before, one that moved within this node may have been taken over alone.
        assert taken[-1] == 2


def metric(node: NodeProcess, which: Metric) -> float:
    """What the node says."""
    text = httpx2.get(f"{node.url}/metrics", timeout=30).text
    return next(
        float(line.split()[1]) for line in text.splitlines() if line.startswith(f"{which.name} ")
    )


def test_what_came_while_zookeeper_was_away_leaves_when_it_is_back(
    queue: Queue, start_node: Callable[..., NodeProcess]
) -> None:
    topic = queue.log.topic()
    with TcpProxy(queue.zookeeper.hosts) as line, ThreadPoolExecutor(1) as pool:
        there = replace(queue, zookeeper=cast("Any", SimpleNamespace(hosts=line.address)))
        node = start_node(there, "cut-off", **environ("signals_alone"))

        def is_ready() -> bool:
            return httpx2.get(f"{node.url}/readyz", timeout=30).status_code == 200

        with HttpMember(node.url, topic) as member:
            member.wait_owned(1)
            # When its time is over, it looks once more: that is too late here.
            waits = pool.submit(member.poll, wait_ms=40_000)
            wait_for(lambda: metric(node, PARKED_POLLS) == 1, "it waits")
            line.set(Line.CUT)
            wait_for(lambda: not is_ready(), "nothing is trusted")
            queue.log.append(topic, ["v"])
            wait_for(lambda: metric(node, TAIL_BYTES) > 0, "the poll is woken in vain")
            line.set(Line.OPEN)
            assert [record["offset"] for record in waits.result(30)] == [0]
