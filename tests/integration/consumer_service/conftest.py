"""Real nodes for the tests of the consumer service."""

from __future__ import annotations

from tests.support.consumer_node import node, own_queue, queue, start_node

__all__ = ["node", "own_queue", "queue", "start_node"]
