"""Consumer-service nodes that never look at anything again only because time has passed.

For processes that are started with `patching.environ("signals_alone")`. What such a node does on
time, it does because it was told: a watch, a notification, an event.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from tests.support.faults.patching import Patch

NEVER_S = 3_600.0


def _never(*names: str) -> Patch:
    """Sets these constants of the module."""

    def patch(module: ModuleType) -> None:
        members = vars(module)
        for name in names:
            assert isinstance(members[name], float), name
            members[name] = NEVER_S

    return patch


PATCHES: dict[str, Sequence[tuple[str, Patch]]] = {
    "signals_alone": [
        ("coordination.zookeeper.election", _never("SLOW_POLL_S")),
        ("coordination.groups.group_cache", _never("SLOW_POLL_S")),
        ("consumer_service.ownership.reconciler", _never("LOOK_EVERY_S", "SLOW_READ_S")),
        ("consumer_service.polls.waiting", _never("LOOK_EVERY_S")),
    ]
}
