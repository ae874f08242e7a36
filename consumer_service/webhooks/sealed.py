"""Secrets of webhooks, as they lie in ZooKeeper: sealed with a key that the root has.

A secret is sealed for its group and its URL. Whoever can write in ZooKeeper alone can therefore not
have requests to another address signed with it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from coordination.groups.webhooks import Webhook
from lakequeue.errors import Broken
from queue_access.registry import Entry, Registry, entry_of_sealing_key
from queue_access.sealing import SealingKey, is_sealed, new_sealing_key
from queue_tables.entries import AccessTable
from queue_tables.root import QueueRoot


class Sealed:
    """Seals and opens. Thread-safe."""

    def __init__(self, root: QueueRoot, node: str) -> None:
        self._root = root
        self._node = node
        self._lock = threading.Lock()
        self._key: SealingKey | None = None

    def seal(self, webhook: Webhook) -> Webhook:
        """As it may be kept."""
        if is_sealed(webhook.secret):
            return webhook
        sealed = self._found().seal(webhook.secret, _about(webhook))
        return replace(webhook, secret=sealed)

    def open(self, webhook: Webhook) -> str:
        """Its secret. Raises `CorruptTable` for one that was sealed elsewhere."""
        if not is_sealed(webhook.secret):
            return webhook.secret
        return self._found().open(webhook.secret, _about(webhook))

    def _found(self) -> SealingKey:
        """The key of the queue; made by the first who needs one."""
        with self._lock:
            if self._key is None:
                self._key = self._read()
            return self._key

    def _read(self) -> SealingKey:
        made = new_sealing_key()

        def wanted(registry: Registry) -> Sequence[Entry]:
            return [] if registry.sealing_key is not None else [entry_of_sealing_key(made)]

        table = AccessTable(self._root)
        table.change(wanted, f"node {self._node}")
        found = table.registry().sealing_key
        if found is None:
            raise Broken("the key that seals secrets is not in the table `access`")
        return found


def _about(webhook: Webhook) -> dict[str, str]:
    return {"group": webhook.group, "url": webhook.url}
