"""Whether an OpenAPI document is valid, as far as tools stumble over it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs


def faults(document: dict[str, Any]) -> list[str]:
    """What is wrong with it; [] if nothing is."""
    return [*_references(document), *_operations(document), *_schemas(document)]


def _walk(part: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    yield place, part
    if isinstance(part, dict):
        for name, one in part.items():
            yield from _walk(one, f"{place}/{name}")
    elif isinstance(part, list):
        for number, one in enumerate(part):
            yield from _walk(one, f"{place}/{number}")


def _references(document: dict[str, Any]) -> Iterator[str]:
    for place, part in _walk(document):
        if not isinstance(part, dict):
            continue
        if "$defs" in part:
            yield f"{place}: definitions of its own"
        reference = part.get("$ref")
        if isinstance(reference, str):
            found: Any = document
            for name in reference.removeprefix("#/").split("/"):
                found = found.get(name) if isinstance(found, dict) else None
            if found is None:
                yield f"{place}: {reference} is nowhere"


def _operations(document: dict[str, Any]) -> Iterator[str]:
    if not document["components"].get("securitySchemes"):
        yield "components: nothing says how to authenticate"
    if any(part is None for part in document["components"].values()):
        yield "components: one is null"
    names: set[str] = set()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            where = f"{method} {path}"
            if operation["operationId"] in names:
                yield f"{where}: {operation['operationId']} is there twice"
            names.add(operation["operationId"])
            given = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
            if given != set(re.findall(r"\{(\w+)\}", path)):
                yield f"{where}: parameters of the path"
            keys = [(p["name"], p["in"]) for p in operation["parameters"]]
            if len(keys) != len(set(keys)):
                yield f"{where}: a parameter is there twice"
            yield from _responses(where, operation["responses"])


def _responses(where: str, responses: dict[str, Any]) -> Iterator[str]:
    for status, response in responses.items():
        if not response.get("description"):
            yield f"{where}: {status} without a description"
        if status in {"200", "201"} and not response.get("content"):
            yield f"{where}: {status} without content"
        # What says whether a node is ready says so in its own form.
        if status < "400" or where == "get /readyz":
            continue
        if list(response["content"]) != ["application/problem+json"]:
            yield f"{where}: {status} is no problem"


def _schemas(document: dict[str, Any]) -> Iterator[str]:
    for place, part in _walk(document["paths"]):
        if place.endswith("/schema") and isinstance(part, dict):
            try:
                jsonschema_rs.meta.validate(part)
            except jsonschema_rs.ValidationError as error:
                yield f"{place}: {error.message}"
