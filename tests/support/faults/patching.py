"""Changes of the product that a test makes in a process that it starts; the product knows nothing.

`environ("one_scan")` is what a child's environment needs: Python then runs `site/sitecustomize.py`
before anything else, and each patch is applied right after its module has been executed, so before
anybody has taken a name out of it. Children of the child (gunicorn's worker, the Python processes
of Spark) have it too. What there is: `broken_builds.py`, `looks.py`, `power.py`,
`sickness.py`, `unreadable.py`, `watched_writers.py`.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

SWITCH = "QUEUE_TEST_PATCHES"
HERE = Path(__file__).parent
Patch = Callable[[ModuleType], None]
"""Given the module; changes it."""


def environ(*names: str, **more: str) -> dict[str, str]:
    """Environment of a child with these patches."""
    path = [str(HERE / "site"), str(HERE.parents[2]), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, path)), SWITCH: ",".join(names)} | more


def install() -> None:
    """Have the patches of this process's environment applied as their modules come."""
    names = [name for name in os.environ.get(SWITCH, "").split(",") if name]
    if not names:
        return
    from tests.support.faults import (
        broken_builds,
        looks,
        power,
        sickness,
        unreadable,
        watched_writers,
    )

    known = (
        broken_builds.PATCHES
        | sickness.PATCHES
        | power.PATCHES
        | looks.PATCHES
        | unreadable.PATCHES
        | watched_writers.PATCHES
    )
    wanted: dict[str, list[Patch]] = {}
    for name in names:
        for module, patch in known[name]:
            wanted.setdefault(module, []).append(patch)
    sys.meta_path.insert(0, _Finder(wanted))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, wanted: dict[str, list[Patch]]) -> None:
        self._wanted = wanted

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        patches = self._wanted.pop(fullname, None)
        if patches is None:
            return None
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            raise ImportError(f"nothing to patch: {fullname}")
        spec.loader = _Loader(spec.loader, patches)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, inner: importlib.abc.Loader, patches: list[Patch]) -> None:
        self._inner = inner
        self._patches = patches

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        for patch in self._patches:
            patch(module)
