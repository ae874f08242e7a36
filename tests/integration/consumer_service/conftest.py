"""Real nodes for the tests of the consumer service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from consumer_service.node import Node
from consumer_service.server import make_node
from lakequeue.settings import Settings
from tests.support.services.consumer_node import Queue, node, own_queue, queue, start_node
from tests.support.services.zookeeper import FAST

__all__ = ["node", "own_queue", "queue", "start_node"]


@pytest.fixture
def own_node(own_queue: Queue) -> Iterator[Node]:
    """A node in this process, so that a test can be in the middle of one of its looks."""
    settings = Settings(
        root=own_queue.root.uri, zookeeper=own_queue.zookeeper.hosts, coordination=FAST
    )
    node = make_node(settings, "here")
    node.start("http://127.0.0.1:1")
    yield node
    node.drain()
