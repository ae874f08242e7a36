"""Every test that a document names exists: `tests/….py::test_…`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
_NAMED = re.compile(r"(tests/[\w/]+\.py)::(\w+)")
DOCUMENTS = sorted((REPOSITORY / "docs").rglob("*.md"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_the_tests_that_a_document_names_exist(document: Path) -> None:
    missing = [
        f"{path}::{name}"
        for path, name in _NAMED.findall(document.read_text())
        if name not in _functions(REPOSITORY / path)
    ]
    assert missing == []


def _functions(path: Path) -> set[str]:
    if not path.exists():
        return set()
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
