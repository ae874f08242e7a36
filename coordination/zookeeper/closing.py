"""Closing nodes that are open: those that were made before there was a password.

The node `/lakequeue/<queue>/closed` says that all were closed. It counts only if it is closed
itself, because everybody can make a node in an open tree. Parents are closed before their children
are listed, so a process that shows no password can add no more of them meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import structlog
from kazoo.exceptions import NoNodeError

from coordination.zookeeper.requests import Requests

log = structlog.get_logger(__name__)

OPEN_TO_ALL = "world"
_AT_ONCE = 250


def close_nodes(session: Requests, *, anew: bool = False) -> int:
    """Close all nodes of the queue for others, unless that was done; how many it were.

    `anew`: look at all of them, whatever was done before. Raises `CoordinationForbidden` for nodes
    that belong to another password, `CoordinationUnavailable`.
    """
    mark = session.path("closed")
    if not anew and _is_closed(session, mark):
        return 0
    top = session.path()
    count, level = 0, ["/lakequeue", top]
    while level:
        count += sum(found is not None for found in _each(session, _close(session), level))
        parents = [path for path in level if path != "/lakequeue"]
        children = _each(session, session.kazoo.get_children_async, parents)
        level = [
            f"{path}/{name}"
            for path, names in zip(parents, children, strict=True)
            for name in names or ()
        ]
    session.ensure(mark)
    if count:
        log.info("zookeeper.nodes_closed", nodes=count)
    return count


def _is_closed(session: Requests, path: str) -> bool:
    try:
        acls, _ = session.call(session.kazoo.get_acls_async, path)
    except NoNodeError:
        return False
    return all(acl.id.scheme != OPEN_TO_ALL for acl in acls)


def _close(session: Requests) -> Callable[[str], Any]:
    return lambda path: session.kazoo.set_acls_async(path, session.kazoo.default_acl)


def _each(session: Requests, request: Callable[[str], Any], paths: Sequence[str]) -> Iterator[Any]:
    """The answers, in order; None: there is no such node. The requests do not wait for another."""
    for at in range(0, len(paths), _AT_ONCE):
        pending = [request(path) for path in paths[at : at + _AT_ONCE]]
        for one in pending:
            try:
                yield session.call(lambda one=one: one)
            except NoNodeError:
                yield None
