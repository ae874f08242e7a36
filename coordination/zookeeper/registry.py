"""Which nodes are there: one ephemeral node per process incarnation.

The name is `/nodes/<role>/<node>~<boot>`, so that a restarted node registers at once while its
killed predecessor's entry still lives out its session timeout; readers see the newest incarnation
of each name. Two live processes with one name are a configuration error; the younger one is told
when its elder has outlived a session timeout.
"""

from __future__ import annotations

import threading
from typing import Any

import orjson

from coordination.zookeeper.session import Session
from lakequeue.clock import boot_seconds
from lakequeue.errors import NotReady

FORMAT = "format"
"""In an entry's info: the newest format of roots that the process reads. 0.1.0 says nothing."""
_SEPARATOR = "~"
"""Not allowed in a node's name."""


class Registration:
    """This process's entry; it is made again by itself in every new session."""

    def __init__(self, session: Session, role: str, node: str, info: dict[str, Any]) -> None:
        self._session = session
        self._role = role
        self._node = node
        self._path = session.path("nodes", role, f"{node}{_SEPARATOR}{session.boot}")
        self._info = info
        self._since = boot_seconds()
        session.maintain(self._path, self._make)

    def _make(self) -> None:
        data = orjson.dumps(self._info | {"node": self._node, "boot": self._session.boot})
        self._session.put_ephemeral(self._path, data)

    def update(self, info: dict[str, Any]) -> None:
        """Replace what the entry says."""
        self._info = info
        self._session.maintain(self._path, self._make)

    def check_alone(self) -> None:
        """Raise `NotReady` when another live process has this node's name.

        A killed predecessor's entry is gone after a session timeout: before that, no verdict.
        """
        if boot_seconds() - self._since < self._session.timeout_s * 1.5:
            return
        boots = _boots(self._session, self._role, None).get(self._node, [])
        others = [boot for boot in boots if boot != self._session.boot]
        if others:
            raise NotReady(
                f"node name {self._node!r} is in use by another live {self._role} process "
                f"(incarnation {others[0]})",
                hint="give each process a different name with --node",
            )


def register(session: Session, role: str, node: str, info: dict[str, Any]) -> Registration:
    """Register this process as `node` in `role` ("ingest", "consumer", "driver").

    `info` (JSON) says how to reach it, e.g. {"url": "http://…"}.
    """
    return Registration(session, role, node, info)


def nodes(
    session: Session, role: str, event: threading.Event | None = None
) -> dict[str, dict[str, Any]]:
    """The live nodes of a role, each with its `info` plus "node" and "boot".

    `event`, if given, is set at the next join or leave, and when the connection changes; call
    again then. Raises `CoordinationUnavailable`.
    """
    boots = _boots(session, role, event)
    names = [(node, boot) for node, several in boots.items() for boot in several]
    paths = [session.path("nodes", role, f"{node}{_SEPARATOR}{boot}") for node, boot in names]
    newest: dict[str, tuple[int, dict[str, Any]]] = {}
    for (node, _), found in zip(names, session.get_all(paths), strict=True):
        if found is None:
            continue
        data, stat = found
        if node not in newest or newest[node][0] < stat.czxid:
            newest[node] = (stat.czxid, orjson.loads(data))
    return {node: info for node, (_, info) in sorted(newest.items())}


def _boots(session: Session, role: str, event: threading.Event | None) -> dict[str, list[str]]:
    boots: dict[str, list[str]] = {}
    for name in session.children(session.path("nodes", role), event):
        node, _, boot = name.partition(_SEPARATOR)
        boots.setdefault(node, []).append(boot)
    return boots
