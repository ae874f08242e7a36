"""Nodes that look several times a second at what they look at every five or ten seconds.

For processes that are started with `patching.environ("quick_looks")`: a test that waits for the
next look, once for each of several tables, waits for nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from tests.support.faults.patching import Patch

SOON_S = 0.2


def _soon(name: str, seconds: float = SOON_S) -> Patch:
    """Sets this constant of the module."""

    def patch(module: ModuleType) -> None:
        assert vars(module)[name] > seconds, name
        vars(module)[name] = seconds

    return patch


PATCHES: dict[str, Sequence[tuple[str, Patch]]] = {
    "quick_looks": [
        ("serving.damage", _soon("LOOK_S")),
        ("queue_tables.upkeep.health", _soon("_FRESH_S")),
        ("queue_access.issuer_keys", _soon("LOOK_EVERY_S", 1.0)),
    ]
}
