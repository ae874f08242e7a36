"""A constructor starts nothing: who makes an object decides when it begins to run."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PACKAGES = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]


def started(source: str) -> Iterator[str]:
    """Classes whose `__init__` calls a method `start`."""
    for kind in ast.walk(ast.parse(source)):
        if isinstance(kind, ast.ClassDef):
            for method in kind.body:
                if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                    calls = [node for node in ast.walk(method) if isinstance(node, ast.Call)]
                    names = {c.func.attr for c in calls if isinstance(c.func, ast.Attribute)}
                    yield from [kind.name] * ("start" in names)


def test_no_constructor_starts_a_thread() -> None:
    found = [
        f"{path.relative_to(PROJECT)} {name}"
        for package in PACKAGES["root_packages"]
        for path in (PROJECT / package).rglob("*.py")
        for name in started(path.read_text())
    ]
    assert found == []
    assert list(started("class A:\n def __init__(self):\n  self.thread.start()")) == ["A"]
