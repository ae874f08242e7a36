"""Real nodes for the tests of the doors."""

from tests.support.services.consumer_node import own_queue, start_node

__all__ = ["own_queue", "start_node"]
