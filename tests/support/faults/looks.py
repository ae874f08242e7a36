"""Nodes that look again at other times than those of users.

For processes that are started with `patching.environ("signals_alone")` or `environ("quick_looks")`.
With `signals_alone` a node never looks at anything again only because time has passed. What it
does on time, it does because it was told: a watch, a notification, an event.
With `quick_looks` it looks several times a second at what it looks at every five or ten seconds: a
test that waits for the next look, once for each of several tables, waits for nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from tests.support.faults.patching import Patch

NEVER_S = 3_600.0
SOON_S = 0.2


def _looks(seconds: float, *names: str) -> Patch:
    """Sets these constants of the module."""

    def patch(module: ModuleType) -> None:
        members = vars(module)
        for name in names:
            assert isinstance(members[name], float), name
            members[name] = seconds

    return patch


PATCHES: dict[str, Sequence[tuple[str, Patch]]] = {
    "signals_alone": [
        ("coordination.zookeeper.election", _looks(NEVER_S, "SLOW_POLL_S")),
        ("coordination.groups.group_cache", _looks(NEVER_S, "SLOW_POLL_S")),
        ("consumer_service.ownership.reconciler", _looks(NEVER_S, "LOOK_EVERY_S", "SLOW_READ_S")),
        ("consumer_service.polls.waiting", _looks(NEVER_S, "LOOK_EVERY_S")),
    ],
    "quick_looks": [
        ("serving.damage", _looks(SOON_S, "LOOK_S")),
        ("queue_tables.upkeep.health", _looks(SOON_S, "_FRESH_S")),
        ("queue_access.issuer_keys", _looks(1.0, "LOOK_EVERY_S")),
    ],
}
