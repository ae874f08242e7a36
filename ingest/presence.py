"""This node in ZooKeeper: registered, and sending notifications. All of it is optional.

ZooKeeper is tried in a thread of its own, and tried again for as long as it is away: ingest starts
and goes on without it, and the order job then finds new records by its slow poll.
"""

from __future__ import annotations

import threading
from typing import Any, Self

import structlog

from coordination.zookeeper.discovery import Discovery
from coordination.zookeeper.notifications import Notifier
from coordination.zookeeper.registry import Registration, register
from coordination.zookeeper.session import Session
from lakequeue.errors import LakequeueError
from lakequeue.settings import CoordinationSettings
from lakequeue.wire import NodeInfo, NodeList
from queue_tables.files.commit_events import interval_of
from queue_tables.root import QueueRoot

ROLE = "ingest"
_CONNECT_S = 10.0
_RETRY_S = 2.0

log = structlog.get_logger(__name__)


class Presence:
    """Connects in the background; `ring` and `skew_s` work whether connected or not."""

    def __init__(
        self,
        hosts: str | None,
        root: QueueRoot,
        node: str,
        info: dict[str, Any],
        settings: CoordinationSettings,
    ) -> None:
        self._hosts = hosts
        self._root = root
        self._node = node
        self._info = info
        self._settings = settings
        self._stopping = threading.Event()
        self._session: Session | None = None
        self._notifiers: dict[str, Notifier] = {}
        self._discovery: Discovery | None = None
        self._thread: threading.Thread | None = None
        if hosts is not None:
            self._thread = threading.Thread(target=self._run, name="presence", daemon=True)

    def start(self) -> Self:
        """Begin to connect, if an ensemble is named."""
        if self._thread is not None:
            self._thread.start()
        return self

    @property
    def state(self) -> str:
        """ "off" (no ensemble named), "away" or "connected"."""
        if self._hosts is None:
            return "off"
        session = self._session
        return "connected" if session is not None and session.connected.is_set() else "away"

    @property
    def session(self) -> Session | None:
        """None until ZooKeeper was reached for the first time."""
        return self._session

    @property
    def skew_s(self) -> float | None:
        """This machine's clock less ZooKeeper's; None while it was never measured."""
        return self._session.skew_s if self._session is not None else None

    def nodes(self) -> NodeList:
        """The nodes of both services; this one alone where no ensemble has told yet."""
        discovery = self._discovery
        known = NodeList(ingest=[], consumer=[]) if discovery is None else discovery.nodes()
        if known.ingest:
            return known
        alone = [NodeInfo(node=self._node, url=str(self._info["url"]))]
        return NodeList(ingest=alone, consumer=known.consumer)

    def notify(self, name: str, version: int) -> None:
        """Tell who hears that notification that there is something; never waits, never fails."""
        notifier = self._notifiers.get(name)
        if notifier is not None:
            notifier.notify(version)

    def close(self) -> None:
        """End the session: the registration goes at once."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        for notifier in self._notifiers.values():
            notifier.close()
        if self._session is not None:
            self._session.stop()

    def _run(self) -> None:
        registration: Registration | None = None
        while not self._stopping.is_set():
            try:
                if self._session is None:
                    self._session = self._connect()
                if registration is None:
                    registration = register(self._session, ROLE, self._node, self._info)
                return
            except LakequeueError as e:
                log.info("registration.failed", error=e.detail)
                self._stopping.wait(_RETRY_S)

    def _connect(self) -> Session:
        session = Session(str(self._hosts), self._root.queue_id, self._node, self._settings)
        session.start(_CONNECT_S)
        topics_ms = self._settings.ring_interval_ms
        inbox_ms = interval_of(topics_ms, self._root.store)
        self._notifiers = {
            "inbox": Notifier(session, "inbox", inbox_ms).start(),
            "topics": Notifier(session, "topics", topics_ms).start(),
        }
        self._discovery = Discovery(session)
        return session
