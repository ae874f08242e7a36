"""The Databricks bundle in `deploy/` as the Databricks CLI sees it: put together, resolved."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[3] / "deploy" / "databricks"
VARIABLE = re.compile(r"\$\{var\.(\w+)\}")
PARAMETER = re.compile(r"\{\{job\.parameters\.(\w+)\}\}")


def load() -> dict[str, Any]:
    """`databricks.yml` with the files it includes."""
    whole: dict[str, Any] = yaml.safe_load((FOLDER / "databricks.yml").read_text())
    whole["resources"] = {"jobs": {}}
    for pattern in whole["include"]:
        for path in sorted(FOLDER.glob(pattern)):
            jobs = yaml.safe_load(path.read_text())["resources"]["jobs"]
            assert whole["resources"]["jobs"].keys().isdisjoint(jobs), path
            whole["resources"]["jobs"] |= jobs
    return whole


def resolve(value: Any, variables: Mapping[str, Any]) -> Any:
    """`value` with each `${var.…}` in its place; one that stands alone may be a list or a map."""
    if isinstance(value, dict):
        return {name: resolve(item, variables) for name, item in value.items()}
    if isinstance(value, list):
        return [resolve(item, variables) for item in value]
    if not isinstance(value, str):
        return value
    if alone := VARIABLE.fullmatch(value):
        return resolve(variables[alone[1]], variables)
    return VARIABLE.sub(lambda match: str(variables[match[1]]), value)


def texts(value: Any) -> Iterator[str]:
    """Every text in it."""
    if isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, str):
        yield value


def arguments(task: Mapping[str, Any], given: Mapping[str, str]) -> list[str]:
    """What the task's function finds in `sys.argv`, with these job parameters."""
    return [
        PARAMETER.sub(lambda match: given[match[1]], text)
        for text in task["python_wheel_task"]["parameters"]
    ]
