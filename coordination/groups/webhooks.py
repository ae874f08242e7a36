"""Webhooks that are registered: `/webhooks/<group>`, persistent.

From format 2 on a table has them too, and an ensemble that was rebuilt from nothing is told from
there; positions and attempts do not depend on it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import orjson
from kazoo.exceptions import BadVersionError, NoNodeError

from coordination.zookeeper.session import Session
from lakequeue.records import checked_name
from lakequeue.wire.calls.webhooks import WebhookFormat


@dataclass(frozen=True, slots=True)
class Webhook:
    """An endpoint, and how its group's records are posted to it."""

    group: str
    url: str
    topics: tuple[str, ...]
    secret: str = field(repr=False)
    """Sealed, or, as an earlier release kept it, plain."""
    concurrency: int
    timeout_ms: int
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the queue group."""
    format: WebhookFormat = "record"
    """What a request carries."""

    def data(self) -> bytes:
        """As it is kept. Releases that know no formats read those that have none."""
        said = {one.name: getattr(self, one.name) for one in fields(self)}
        if self.format == "record":
            del said["format"]
        return orjson.dumps(said)


def put_webhook(session: Session, webhook: Webhook) -> None:
    """Register it, in place of the one before. Raises `CoordinationUnavailable`."""
    path = _path(session, webhook.group)
    data = webhook.data()
    session.ensure(path, data)
    session.call(session.kazoo.set_async, path, data)


def publish_webhook(session: Session, group: str, newest: Callable[[], Webhook | None]) -> None:
    """Let ZooKeeper say what `newest` says; asked after ZooKeeper, so nothing older gets there."""
    path = _path(session, group)
    found = session.read(path)
    wanted = newest()
    if wanted == (None if found is None else webhook_in(found[0])):
        return
    with contextlib.suppress(BadVersionError, NoNodeError):  # somebody else does; seen next time
        if wanted is None and found is not None:
            session.call(session.kazoo.delete_async, path, found[1].version)
        elif wanted is not None and found is None:
            session.ensure(path, wanted.data())
        elif wanted is not None and found is not None:
            data = wanted.data()
            session.call(session.kazoo.set_async, path, data, version=found[1].version)


def exchange_secret(session: Session, group: str, seal: Callable[[Webhook], Webhook]) -> None:
    """Put what `seal` makes of it in its place, unless somebody else changes it meanwhile."""
    path = _path(session, group)
    found = session.read(path)
    if found is None:
        return
    data = seal(webhook_in(found[0])).data()
    with contextlib.suppress(BadVersionError, NoNodeError):
        session.call(session.kazoo.set_async, path, data, version=found[1].version)


def webhook_of(session: Session, group: str) -> Webhook | None:
    """The webhook of a group."""
    found = session.read(_path(session, group))
    return None if found is None else webhook_in(found[0])


def delete_webhook(session: Session, group: str) -> bool:
    """Forget it; False if there was none."""
    try:
        session.call(session.kazoo.delete_async, _path(session, group))
    except NoNodeError:
        return False
    return True


def webhooks(session: Session, event: threading.Event | None = None) -> dict[str, Webhook]:
    """All of them, by group. `event` is set when one comes or goes (not when one changes)."""
    names = session.children(session.path("webhooks"), event)
    found = session.get_all([session.path("webhooks", name) for name in names])
    return {
        name: webhook_in(entry[0])
        for name, entry in zip(names, found, strict=True)
        if entry is not None
    }


def _path(session: Session, group: str) -> str:
    return session.path("webhooks", checked_name(group, "group"))


def webhook_in(data: bytes) -> Webhook:
    """As it is kept."""
    said = orjson.loads(data)
    return Webhook(**(said | {"topics": tuple(said["topics"])}))
