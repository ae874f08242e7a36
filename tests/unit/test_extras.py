"""What a role imports is installed with the extra by which it is installed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

import lakequeue
from lakequeue.extras import command_for, pip_install
from lakequeue_cli.packages import NODE, SERVER

REPOSITORY = Path(__file__).parents[2]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
OURS = {
    Path(name).name for name in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
}
ROLES = {
    "services": (
        (
            "ingest",
            "consumer_service",
            "serving",
            "coordination",
            "queue_rules",
            "queue_tables",
            "queue_access",
        ),
        "server",
    ),
    "driver": (("jobs", "serving", "coordination", "queue_rules", "queue_tables"), "server,spark"),
    "Spark source": (("pyspark_lakequeue", "queue_tables"), "spark"),
    "command line": (("lakequeue_cli",), "cli"),
    "console": (("console",), "server"),
    "SQS gateway": (("sqs_gateway",), "server"),
    "memory queue": (("memory_queue",), "testing"),
    "client": (("lakequeue/client", "lakequeue/wire"), ""),
}
"""Role → its packages, and the extras of its image or installation."""
WHEN_USED = REPOSITORY / "lakequeue/client/consuming/transaction.py"
"""`Consumer.transaction` loads it, and says which extra is missing."""


def imported(folder: Path) -> Iterator[tuple[str, Path]]:
    """Top-level names that are imported when a module is."""
    for path in folder.rglob("*.py"):
        if path == WHEN_USED:
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import):
                yield from ((alias.name.partition(".")[0], path) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module.partition(".")[0], path


def declared(extras: str) -> set[str]:
    """Distributions that are installed with these extras, by their normal names."""
    lists = [PROJECT["project"]["dependencies"]]
    optional = PROJECT["project"]["optional-dependencies"]
    lists += [optional[extra] for extra in extras.split(",") if extra]
    return {_normal(re.split(r"[\[<>=!~ ]", line)[0]) for lines in lists for line in lines}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


_BY_MODULE = packages_distributions()
_BROUGHT = {
    "werkzeug": "flask",
    "markupsafe": "flask",
    "py4j": "pyspark",
    "pydantic_core": "pydantic",
}
"""Modules of what a declared distribution cannot be installed without."""


@pytest.mark.parametrize("role", ROLES)
def test_what_a_role_imports_is_declared(role: str) -> None:
    folders, extras = ROLES[role]
    there = declared(extras)
    missing = sorted(
        {
            f"{name} ({path.relative_to(REPOSITORY)})"
            for folder in folders
            for name, path in imported(REPOSITORY / folder)
            if name not in OURS
            and name not in sys.stdlib_module_names
            and _BROUGHT.get(name, name) not in there
            and not {_normal(one) for one in _BY_MODULE.get(name, [])} & there
        }
    )
    assert missing == []


def test_the_sdk_brings_nothing_that_it_does_not_import() -> None:
    """What services alone need made half of its 52 MB."""
    used = {
        name.partition(".")[0]
        for path in (REPOSITORY / "lakequeue").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [(isinstance(node, ast.ImportFrom) and node.module) or ""]
        )
    }
    assert {name.replace("-", "_") for name in declared("")} <= used


@pytest.mark.parametrize(("asked", "extras"), [(NODE, "server"), (SERVER, "server,spark")])
def test_a_command_asks_for_no_package_that_its_extras_do_not_bring(
    asked: tuple[str, ...], extras: str
) -> None:
    """The remedy that it names would not help."""
    assert set(asked) <= declared(extras)


@pytest.mark.parametrize("words", [["--help"], ["topic", "--help"], ["config", "show"]])
def test_the_command_line_needs_no_package_of_the_services(words: list[str]) -> None:
    """Also not through what it imports of ours, which the other tests do not follow."""
    absent = declared("server,spark") - declared("cli")
    names = [name for name, given in _BY_MODULE.items() if _normal(given[0]) in absent]
    assert {"kazoo", "pyarrow", "flask", "pyspark"} <= set(names)
    hide = f"import sys; sys.modules.update(dict.fromkeys({names!r}))"
    run = f"{hide}; sys.argv[1:] = {words!r}; from lakequeue_cli.app import main; main()"
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("facade", "package"), [("spark", "pyspark"), ("duck", "duckdb"), ("testing", "numpy")]
)
def test_what_is_imported_without_its_extra_names_it(facade: str, package: str) -> None:
    program = f"import sys; sys.modules[{package!r}] = None; import lakequeue.{facade}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    extra = "duckdb" if facade == "duck" else facade
    assert done.stderr.strip().endswith(pip_install(extra))


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ({}, "pip install 'lakequeue[duckdb]'"),
        (
            {"url": "file:///d/lakequeue-0.1.0-py3-none-any.whl", "archive_info": {}},
            "pip install 'lakequeue[duckdb] @ file:///d/lakequeue-0.1.0-py3-none-any.whl'",
        ),
        (
            {"url": "file:///my%20src/lakequeue", "dir_info": {"editable": True}},
            "pip install -e '/my src/lakequeue[duckdb]'",
        ),
        (
            {"url": "file:///src/lakequeue", "dir_info": {}},
            "pip install 'lakequeue[duckdb] @ file:///src/lakequeue'",
        ),
    ],
)
def test_an_extra_comes_from_where_lakequeue_came_from(
    origin: dict[str, Any], command: str
) -> None:
    """It is on no package index: the name alone would not be found there."""
    assert command_for("duckdb", origin) == command


def test_the_version_needs_no_extra() -> None:
    program = "import sys; sys.modules['typer'] = None; from lakequeue_cli.start import main"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; main()", "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == f"lakequeue {lakequeue.__version__}\n"
