"""A root with authentication on, and keys for who is tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx2

from queue_access.keys import new_key
from queue_access.quotas import Quota
from queue_access.registry import (
    LOCKED,
    Entry,
    Registry,
    entry_of_grant,
    entry_of_key,
    entry_of_quota,
)
from queue_access.rights import Grant, checked_grant, grants_of
from queue_tables.entries import AccessTable
from queue_tables.root import QueueRoot
from tests.support.services.zookeeper import wait_for

ADMIN = "admin"


@dataclass
class Locks:
    """The entries of one root, as a test changes them."""

    root: QueueRoot
    keys: dict[str, str] = field(default_factory=dict)
    """Principal → its newest key."""

    def lock(self) -> Locks:
        """Switch authentication on; the principal `admin` may do everything."""
        self.put([Entry(LOCKED, LOCKED)])
        self.key(ADMIN, *grants_of(ADMIN, {}))
        return self

    def put(self, entries: Sequence[Entry]) -> None:
        """Commit these."""

        def said(_registry: Registry) -> Sequence[Entry]:
            return entries

        AccessTable(self.root).change(said, "test")

    def key(self, principal: str, *grants: Grant) -> str:
        """A key of a principal, who gets these rights as well."""
        text, made = new_key(principal)
        self.put([entry_of_key(made), *(entry_of_grant(principal, one) for one in grants)])
        self.keys[principal] = text
        return text

    def may(self, principal: str, right: str, kind: str, name: str) -> str:
        """A key of a principal with one right."""
        return self.key(principal, checked_grant(right, kind, name))

    def revoke(self, principal: str) -> None:
        """Revoke all keys of a principal."""
        keys = AccessTable(self.root).registry().keys.values()
        mine = [replace(entry_of_key(k), deleted=True) for k in keys if k.principal == principal]
        self.put(mine)

    def take_back(self, principal: str, right: str, kind: str, name: str) -> None:
        """Take a right back."""
        one = entry_of_grant(principal, checked_grant(right, kind, name))
        self.put([replace(one, deleted=True)])

    def limit(self, principal: str, quota: Quota) -> None:
        """Give a quota."""
        self.put([entry_of_quota(principal, quota)])


def locks(folder: Path) -> Locks:
    """A locked root at `folder`."""
    return Locks(QueueRoot.open(str(folder))).lock()


def secret_of(key: str) -> str:
    """What nobody else may know of a key. It may have a `_` itself."""
    return key.split("_", 2)[2]


def as_(key: str | None) -> dict[str, str]:
    """The header that shows a key."""
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def wait_status(http: httpx2.Client, path: str, key: str | None, status: int) -> None:
    """Wait until a GET is answered so: nodes look at the table once a second."""
    wait_for(lambda: http.get(path, headers=as_(key)).status_code == status, f"{path}: {status}")
