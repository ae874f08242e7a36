"""Keys, grants, issuers and quotas of a queue, as its table `access` has them. Pure.

Each entry has a kind and a name; of several versions the highest counts. As soon as there is an
entry of the kind `authentication`, whoever does not say who they are is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import orjson

from queue_access.keys import Key
from queue_access.quotas import NO_QUOTA, Quota
from queue_access.rights import ALL, Grant, Kind, Right, Rights
from queue_access.sealing import SealingKey
from queue_access.tokens import Issuer

EntryKind = Literal["authentication", "key", "grant", "issuer", "quota", "sealing"]
NODES = "nodes-of-this-queue"
"""The principal of calls from one node to another."""
LOCKED: EntryKind = "authentication"
EVERYBODY = "everybody"
"""The name of who calls while authentication is off."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One version of one entry."""

    kind: EntryKind
    name: str
    principal: str | None = None
    body: str = "{}"
    """JSON."""
    expires_at: int | None = None
    version: int = 0
    deleted: bool = False


def entry_of_key(key: Key) -> Entry:
    """A key, as it is kept."""
    body = orjson.dumps({"sha256": key.secret_hash}).decode()
    return Entry("key", key.id, key.principal, body, key.expires_at)


def entry_of_grant(subject: str, grant: Grant) -> Entry:
    """A grant to a principal, or to a group of an issuer."""
    name = f"{subject} {grant.right} {grant.kind} {grant.pattern}"
    return Entry("grant", name, subject, orjson.dumps(asdict(grant)).decode())


def entry_of_issuer(issuer: Issuer) -> Entry:
    """An issuer."""
    return Entry("issuer", issuer.name, None, orjson.dumps(asdict(issuer)).decode())


def entry_of_quota(subject: str, quota: Quota) -> Entry:
    """The quota of a principal."""
    return Entry("quota", subject, subject, orjson.dumps(asdict(quota)).decode())


def entry_of_sealing_key(key: SealingKey) -> Entry:
    """The key that secrets are sealed with, which have to be read again."""
    return Entry("sealing", "webhooks", None, orjson.dumps({"key": key.text}).decode())


class Registry:
    """What the entries come to; never changed, replaced as a whole."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.locked = False
        self.keys: dict[str, Key] = {}
        self.grants: dict[str, list[Grant]] = {}
        self.issuers: dict[str, Issuer] = {}
        """By the claim `iss`."""
        self.quotas: dict[str, Quota] = {}
        self.sealing_key: SealingKey | None = None
        self._rights: dict[tuple[str, ...], Rights] = {}
        for entry in entries:
            if not entry.deleted:
                self._add(entry)

    def _add(self, entry: Entry) -> None:
        body = orjson.loads(entry.body)
        subject = entry.principal or ""
        if entry.kind == LOCKED:
            self.locked = True
        elif entry.kind == "key":
            self.keys[entry.name] = Key(entry.name, subject, body["sha256"], entry.expires_at)
        elif entry.kind == "grant":
            grant = Grant(Right(body["right"]), Kind(body["kind"]), body["pattern"])
            self.grants.setdefault(subject, []).append(grant)
        elif entry.kind == "issuer":
            issuer = Issuer(**body | {"algorithms": tuple(body["algorithms"])})
            self.issuers[issuer.url] = issuer
        elif entry.kind == "quota":
            self.quotas[subject] = Quota(**body)
        elif entry.kind == "sealing":
            self.sealing_key = SealingKey(body["key"])

    def rights_of(self, principal: str, groups: tuple[str, ...] = ()) -> Rights:
        """What somebody may do, for themselves and by their groups."""
        if not self.locked:
            return ALL
        subjects = (principal, *groups)
        found = self._rights.get(subjects)
        if found is None:
            found = Rights(grant for one in subjects for grant in self.grants.get(one, ()))
            if len(self._rights) < _MOST_RIGHTS:
                self._rights[subjects] = found
        return found

    def quota_of(self, principal: str) -> Quota:
        """The limits of somebody; of those who have none, those of `*`.

        Nodes have none: what they call each other for is counted where somebody asked for it.
        """
        if principal == NODES:
            return NO_QUOTA
        return self.quotas.get(principal) or self.quotas.get("*") or NO_QUOTA


_MOST_RIGHTS = 10_000


def newest(entries: Iterable[Entry]) -> Mapping[tuple[str, str], Entry]:
    """Of each kind and name the highest version."""
    found: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        about = (entry.kind, entry.name)
        if about not in found or found[about].version < entry.version:
            found[about] = entry
    return found


def described(entry: Entry) -> dict[str, Any]:
    """An entry as it may be shown: without the hash of a key, and no key that seals."""
    body = {k: v for k, v in orjson.loads(entry.body).items() if k not in {"sha256", "key"}}
    said = {"kind": entry.kind, "name": entry.name, "principal": entry.principal}
    return said | body | {"expires_at": entry.expires_at}


def told(entries: Iterable[Entry]) -> str | None:
    """Entries for the audit, as JSON; None: there are none."""
    there = [described(entry) for entry in entries if not entry.deleted]
    return orjson.dumps(there).decode() if there else None
