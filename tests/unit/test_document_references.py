"""What the documents point at exists: pages, and tests named as `tests/….py::test_…`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
_NAMED = re.compile(r"(tests/[\w/]+\.py)::(\w+)")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
DOCUMENTS = [
    *sorted(REPOSITORY.glob("*.md")),
    *sorted((REPOSITORY / "docs").rglob("*.md")),
    *sorted((REPOSITORY / "examples").rglob("*.md")),
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_the_tests_that_a_document_names_exist(document: Path) -> None:
    missing = [
        f"{path}::{name}"
        for path, name in _NAMED.findall(document.read_text())
        if name not in _functions(REPOSITORY / path)
    ]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_the_pages_that_a_document_links_to_exist(document: Path) -> None:
    own = [
        link.partition("#")[0]
        for link in _LINK.findall(document.read_text())
        if not link.startswith(("http://", "https://", "#"))
    ]
    assert [link for link in own if not (document.parent / link).exists()] == []


def test_decisions_have_numbers_of_their_own() -> None:
    numbers = [page.name[:4] for page in (REPOSITORY / "docs" / "decisions").glob("*.md")]
    assert len(numbers) == len(set(numbers))


def _functions(path: Path) -> set[str]:
    if not path.exists():
        return set()
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
