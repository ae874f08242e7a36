"""Redrive by HTTP: as much of one as a request may take, by a client within the node.

It is the redrive of the client (`lakequeue/client/redrive.py`), so it is exactly once for the same
reason, and may meet others of the same topic. What is left is for the next request: the pace is the
caller's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from consumer_service.node import Node
from lakequeue.errors import NotReady, Overloaded
from lakequeue.wire import RedriveAnswer, RedriveRequest

MOST_AT_ONCE = 4
"""Each takes a thread of the node, and asks the node by others."""


class Redrives:
    """Thread-safe."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._room = threading.BoundedSemaphore(MOST_AT_ONCE)

    def run(
        self, topic: str, request: RedriveRequest, may_send: Callable[[str], bool]
    ) -> RedriveAnswer:
        """Redrive some. Raises `NotReady`, `Overloaded`, and what a redrive raises.

        `may_send`: whether whoever asks may send to a topic. The node may send to all of them.
        """
        if not self._room.acquire(blocking=False):
            raise Overloaded(
                f"{MOST_AT_ONCE} redrives run at this node",
                hint="ask again, or another node",
                retry_after_s=1.0,
            )
        try:
            return self._run(topic, request, may_send)
        finally:
            self._room.release()

    def _run(
        self, topic: str, request: RedriveRequest, may_send: Callable[[str], bool]
    ) -> RedriveAnswer:
        node = self._node
        ingest = node.ingest_urls()
        if not ingest or node.draining.is_set():
            raise NotReady(
                "this node is stopping" if ingest else "no ingest node is registered",
                hint="dead records go back through one: start it, or ask another node",
            )
        stopping = node.draining.is_set
        return node.clients.redrive(topic, request, ingest, node.url, stopping, may_send)
