"""Nodes that look every fifth of a second at what they look at every five seconds.

For processes that are started with `patching.environ("quick_looks")`: a test that waits for the
next look, once for each of several tables, waits for nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from tests.support.faults.patching import Patch

SOON_S = 0.2


def _soon(name: str) -> Patch:
    """Sets this constant of the module."""

    def patch(module: ModuleType) -> None:
        assert vars(module)[name] == 5.0, name
        vars(module)[name] = SOON_S

    return patch


PATCHES: dict[str, Sequence[tuple[str, Patch]]] = {
    "quick_looks": [
        ("serving.damage", _soon("LOOK_S")),
        ("queue_tables.upkeep.health", _soon("_FRESH_S")),
    ]
}
