"""Which nodes of both services there are, as last known.

While ZooKeeper is away the nodes are most likely those that were there before, and a client that
asks has to go somewhere: what is known stays, and is looked up anew when something changes.
"""

from __future__ import annotations

import threading

from coordination import registry
from coordination.session import Session
from lakequeue.errors import CoordinationUnavailable
from lakequeue.wire import NodeInfo, NodeList


class Directory:
    """Thread-safe. Asks ZooKeeper only after it has said that nodes came or went."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._changed = session.waker()
        self._changed.set()
        self._known = NodeList(ingest=[], consumer=[])
        self._lock = threading.Lock()

    def nodes(self) -> NodeList:
        """Those registered; of a killed one the entry stays for a session timeout."""
        with self._lock:
            if self._changed.is_set() and self._session.connected.is_set():
                self._changed.clear()
                try:
                    self._known = NodeList(
                        ingest=self._read("ingest"), consumer=self._read("consumer")
                    )
                except CoordinationUnavailable:
                    self._changed.set()
            return self._known

    def _read(self, role: str) -> list[NodeInfo]:
        found = registry.nodes(self._session, role, self._changed)
        return [NodeInfo(node=node, url=str(info["url"])) for node, info in found.items()]
