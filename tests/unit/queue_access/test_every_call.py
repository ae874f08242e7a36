"""The table *call × right* has exactly the calls that the services answer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from queue_access.calls import CALLS, Service

PROJECT = Path(__file__).parents[3]
FOLDERS: dict[Service, str] = {"ingest": "ingest/http", "consumer": "consumer_service/http"}
METHODS = {"get", "put", "post", "patch", "delete", "route"}


def declared_routes(folder: Path) -> Iterator[tuple[str, str]]:
    """(method, path as in OpenAPI) of every `@app.get("…")` and the like in a folder."""
    for module in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(module.read_text())):
            if not isinstance(node, ast.FunctionDef):
                continue
            for decorator in node.decorator_list:
                call = decorator.func if isinstance(decorator, ast.Call) else decorator
                if not isinstance(call, ast.Attribute) or call.attr not in METHODS:
                    continue
                assert isinstance(decorator, ast.Call)
                path = decorator.args[0]
                assert isinstance(path, ast.Constant), f"{module}: a path is said where it counts"
                method = "GET" if call.attr == "route" else call.attr.upper()
                yield method, str(path.value).replace("<", "{").replace(">", "}")


@pytest.mark.parametrize("service", FOLDERS)
def test_each_call_of_a_service_has_its_right_and_no_other_is_declared(service: Service) -> None:
    declared = [(call.method, call.path) for call in CALLS[service]]
    routes = list(declared_routes(PROJECT / FOLDERS[service]))
    assert len(declared) == len(set(declared))
    assert len(routes) >= len({*routes}) > 10
    assert set(declared) == set(routes)
