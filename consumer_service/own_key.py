"""The key by which a node calls other nodes: made by itself, kept in memory alone.

Purges ask the owners of partitions, dead letters go through ingest nodes, webhooks and redrives are
clients of the nodes. While authentication is off there is none. The table has its hash, and forgets
it soon after the node.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import structlog

from lakequeue.errors import LakequeueError
from queue_access.keys import Key, new_key
from queue_access.registry import NODES, Entry, Registry, entry_of_grant, entry_of_key
from queue_access.rights import EVERY, Grant, Kind, Right
from queue_tables.entries import AccessTable
from queue_tables.root import QueueRoot

log = structlog.get_logger(__name__)


LIVES_S = 86_400.0
_ANEW_S = LIVES_S / 2
_AGAIN_S = 5.0
_EVERYTHING = Grant(Right.ADMIN, Kind.QUEUE, EVERY)


class OwnKey:
    """Thread-safe."""

    def __init__(
        self,
        root: QueueRoot,
        node: str,
        registry: Callable[[], Registry],
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._root = root
        self._node = node
        self._registry = registry
        self._wall_s = wall_s
        self._lock = threading.Lock()
        self._text: str | None = None
        self._key: Key | None = None
        self._due = float("-inf")

    def secret(self) -> str | None:
        """The key; None while authentication is off, or the table cannot be written."""
        with self._lock:
            now = self._wall_s()
            if self._registry().locked and now >= self._due:
                try:
                    self._make(now)
                except LakequeueError as error:
                    log.warning("own_key.creation_failed", error=error.detail)
                    self._due = now + _AGAIN_S
            return self._text

    def _make(self, now: float) -> None:
        text, key = new_key(NODES, int((now + LIVES_S) * 1_000_000))

        def wanted(registry: Registry) -> list[Entry]:
            over = [
                replace(entry_of_key(old), deleted=True)
                for old in registry.keys.values()
                if old.principal == NODES and old.expired(int(now * 1_000_000))
            ]
            grant = entry_of_grant(NODES, _EVERYTHING)
            known = _EVERYTHING in registry.grants.get(NODES, ())
            return [*over, entry_of_key(key), *(() if known else (grant,))]

        AccessTable(self._root).change(wanted, f"node {self._node}")
        self._text, self._key, self._due = text, key, now + _ANEW_S

    def close(self) -> None:
        """Take it back."""
        with self._lock:
            key, self._text, self._key = self._key, None, None
            self._due = float("inf")
        if key is not None:
            try:
                gone = replace(entry_of_key(key), deleted=True)
                AccessTable(self._root).change(lambda _: [gone], f"node {self._node}")
            except LakequeueError as error:
                # It expires.
                log.info("own_key.take_back_failed", error=error.detail)
