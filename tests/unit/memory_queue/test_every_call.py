"""The memory queue answers every call that the services have, but for those named here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memory_queue.calls import Call
from memory_queue.service import Service

REPOSITORY = Path(__file__).parents[3]
_ROUTE = re.compile(r'@app\.(get|put|post|patch|delete)\(\s*"([^"]+)"')
NOT_IN_MEMORY = {
    ("GET", "/v1/groups/<group>/members/<member>/events"),
    ("PUT", "/v1/groups/<group>/webhook"),
    ("GET", "/v1/groups/<group>/webhook"),
    ("DELETE", "/v1/groups/<group>/webhook"),
    ("GET", "/v1/nodes"),
    ("GET", "/v1/advice"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
}


def calls() -> list[tuple[str, str]]:
    """(method, path) of what both services declare."""
    found = set()
    for service in ("ingest", "consumer_service"):
        for module in (REPOSITORY / service / "http").rglob("*.py"):
            calls_there = _ROUTE.findall(module.read_text())
            found |= {(method.upper(), path) for method, path in calls_there}
    return sorted(found)


def test_the_services_have_the_calls_that_are_not_in_memory() -> None:
    assert set(calls()) > NOT_IN_MEMORY
    assert len(calls()) > 25


@pytest.mark.parametrize(("method", "path"), calls(), ids=" ".join)
def test_a_call_is_in_memory_unless_it_is_named(method: str, path: str) -> None:
    filled = re.sub(r"<(partition|offset)>", "0", path)
    filled = re.sub(r"<\w+>", "x", filled)
    said = Service().answer(Call(method, filled, {}, b""))
    there = b"is not there in memory" not in getattr(said, "body", b"")
    assert there == ((method, path) not in NOT_IN_MEMORY)
