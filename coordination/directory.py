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
        self._told = False
        """ZooKeeper has told once."""
        self._asking = threading.Lock()

    def nodes(self) -> NodeList:
        """Those registered; of a killed one the entry stays for a session timeout.

        One caller asks, the others go on with what is known: an ensemble that is slow to answer
        must not hold all threads of a service.
        """
        due = self._changed.is_set() and self._session.connected.is_set()
        if due and self._asking.acquire(blocking=not self._told):
            try:
                self._ask()
            finally:
                self._asking.release()
        return self._known

    def _ask(self) -> None:
        if not self._changed.is_set():
            return  # another caller has, while this one waited
        self._changed.clear()
        try:
            self._known = NodeList(ingest=self._read("ingest"), consumer=self._read("consumer"))
            self._told = True
        except CoordinationUnavailable:
            self._changed.set()

    def _read(self, role: str) -> list[NodeInfo]:
        found = registry.nodes(self._session, role, self._changed)
        return [NodeInfo(node=node, url=str(info["url"])) for node, info in found.items()]
