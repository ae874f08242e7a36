"""A topic with very many partitions under a very long name stops no other group."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakequeue.wire import MAX_PARTITIONS
from queue_tables.topics import TopicStore
from tests.support.services.consumer_node import HttpMember, NodeProcess, Queue, group_of
from tests.support.services.zookeeper import wait_for

pytestmark = [
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.timeout(300),
]


def test_the_most_partitions_under_a_long_name_stop_no_other_group(
    own_queue: Queue, start_node: Callable[..., NodeProcess]
) -> None:
    """Their assignment was larger than ZooKeeper takes, and no group got one any more."""
    small = own_queue.log.topic()
    own_queue.log.append(small, ["a"])
    large, _ = TopicStore(own_queue.root).create("n" * 240, partitions=MAX_PARTITIONS)
    node = start_node(own_queue)
    with HttpMember(node.url, large, "g" * 240) as many:

        def assigned() -> bool:
            answer = many.client.post(f"{many.path}/heartbeat")
            assert answer.status_code == 200, answer.text
            return len(answer.json()["assignment"]) == MAX_PARTITIONS

        wait_for(assigned, "all partitions are assigned", timeout_s=180, every_s=0.5)
        with HttpMember(node.url, small, group_of(small)) as other:
            records = other.poll_until(1)
            assert other.ack(records).status_code == 200
