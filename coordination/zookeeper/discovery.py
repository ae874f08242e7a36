"""Which nodes of both services there are, as last known.

While ZooKeeper is away the nodes are most likely those that were there before, and a client that
asks has to go somewhere: what is known stays, and is looked up anew when something changes.
"""

from __future__ import annotations

import threading

from coordination.zookeeper import registry
from coordination.zookeeper.session import Session
from lakequeue.errors import CoordinationUnavailable
from lakequeue.wire import NodeInfo, NodeList

WAIT_S = 0.5
"""How long a caller waits for the answer that another has asked for."""


class Discovery:
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

        One caller asks, the others wait for the answer; not for long, and then they go on with what
        is known: an ensemble that is slow to answer must not hold all threads of a service.
        """
        # Also while nothing is due: what another caller is being told is newer. A client that was
        # told of this node alone would have nobody to go to when it dies.
        due = self._changed.is_set() or self._asking.locked()
        if due and self._session.connected.is_set():
            self._ask_once(WAIT_S if self._told else -1)
        return self._known

    def _ask_once(self, timeout_s: float) -> None:
        if not self._asking.acquire(timeout=timeout_s):
            return
        try:
            self._ask()
        finally:
            self._asking.release()

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
