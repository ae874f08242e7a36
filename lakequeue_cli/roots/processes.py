"""Which processes of a queue know less than a format needs, as ZooKeeper has them."""

from __future__ import annotations

import sys

from lakequeue.settings import Settings

_CONNECT_S = 10.0
_ROLES = ("ingest", "consumer", "driver")


def older_processes(settings: Settings, queue_id: str, number: int) -> list[str]:
    """Names of the live ones that do not read that format; said if nobody can be asked."""
    from coordination.zookeeper import registry
    from coordination.zookeeper.session import Session

    if settings.zookeeper is None:
        sys.stderr.write(
            "not looked whether processes of an earlier release run: with --zookeeper it is\n"
        )
        return []
    session = Session(settings.zookeeper, queue_id, "upgrade", settings.coordination)
    session.start(_CONNECT_S)
    try:
        return [
            f"{role} {node}"
            for role in _ROLES
            for node, info in registry.nodes(session, role).items()
            if int(info.get(registry.FORMAT, 1)) < number
        ]
    finally:
        session.stop()
