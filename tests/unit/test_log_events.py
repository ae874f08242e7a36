"""Log events have one form: `what.happened`, in small letters, with a verb at the end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PACKAGES = (
    "console", "consumer_service", "coordination", "ingest", "jobs", "lakequeue", "lakequeue_cli",
    "memory_queue", "pyspark_lakequeue", "queue_access", "queue_rules", "queue_tables", "serving",
    "sqs_gateway",
)  # fmt: skip
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
EVENT = re.compile(
    r"[a-z]+(_[a-z]+)*(\.[a-z]+(_[a-z]+)*)*\.([a-z]+_)*([a-z]+ed|hung|left|lost|sent|set_aside|written)"
)


def events(source: str) -> Iterator[tuple[int, str | None]]:
    """Line and name of each event that a module logs by structlog; None: it is computed."""
    if "structlog" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(value=logger, attr=level), args=[first, *_]) if (
                level in LEVELS and ast.unparse(logger).rpartition(".")[2] in {"log", "_log"}
            ):
                name = first.value if isinstance(first, ast.Constant) else None
                yield node.lineno, name if isinstance(name, str) else None


def modules() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((PROJECT / package).rglob("*.py"))]


def test_an_event_is_named_for_what_happened() -> None:
    found = [
        (path.relative_to(PROJECT).as_posix(), line, name)
        for path in modules()
        for line, name in events(path.read_text())
    ]
    assert len(found) > 50
    assert [one for one in found if not one[2] or not EVENT.fullmatch(one[2])] == []


@pytest.mark.parametrize(
    "name", ["stale", "shard waits", "shard_waits", "shard.gap", "Shard.sealed"]
)
def test_other_names_are_found(name: str) -> None:
    source = f'import structlog\nlog = structlog.get_logger()\nlog.info("{name}", n=1)\n'
    ((line, found),) = events(source)
    assert (line, found) == (3, name)
    assert not EVENT.fullmatch(name)
