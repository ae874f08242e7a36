"""The same error on both sides of the wire, and always with what to do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakequeue import errors
from lakequeue.wire import from_problem


def test_an_error_survives_the_wire() -> None:
    sent = errors.Overloaded("64 MiB wait", hint="slow down", stored="no", retry_after_s=2.0, n=7)
    got = from_problem(sent.to_problem(), sent.http_status)
    assert type(got) is errors.Overloaded
    assert (got.detail, got.hint, got.stored) == ("64 MiB wait", "slow down", "no")
    assert (got.retry_after_s, got.extra) == (2.0, {"n": 7})


@pytest.mark.parametrize(
    ("status", "kind"), [(502, errors.TryAgain), (429, errors.TryAgain), (418, errors.Rejected)]
)
def test_unknown_codes_are_judged_by_their_status(
    status: int, kind: type[errors.LakequeueError]
) -> None:
    assert isinstance(from_problem({"code": "from_the_future"}, status), kind)


def test_every_error_is_declared_in_one_module_with_a_code_of_its_own() -> None:
    declared = [e for e in vars(errors).values() if isinstance(e, type)]
    classes = [e for e in declared if issubclass(e, errors.LakequeueError)]
    assert {e.code: e for e in classes} == errors.every()
    assert len(classes) == len(errors.every())


ROOT = Path(__file__).parents[3]
PACKAGES = (
    *("lakequeue", "serving", "ingest", "consumer_service"),
    *("jobs", "coordination", "queue_tables", "queue_rules", "memory_queue"),
    *("lakequeue_cli", "pyspark_lakequeue/session", "console", "sqs_gateway"),
)


def _without_hint(source: str) -> Iterator[str]:
    """The refusals in `source` that do not say what to do."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        kind = getattr(errors, getattr(node.func, "id", ""), None)
        if not (isinstance(kind, type) and issubclass(kind, errors.Rejected)):
            continue
        hints = [k.value for k in node.keywords if k.arg in {"hint", None}]
        if not hints or any(isinstance(h, ast.Constant) and not h.value for h in hints):
            yield f"line {node.lineno}: {ast.unparse(node)}"


def test_every_refusal_says_what_to_do() -> None:
    found = [
        f"{path.relative_to(ROOT)} {what}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for what in _without_hint(path.read_text())
    ]
    assert found == []
    assert len(list(_without_hint('raise InvalidRequest("no"); UnknownGroup("a", hint="")'))) == 2
