"""A command whose packages are not installed names the extra that brings them."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest

from lakequeue.extras import pip_install
from lakequeue_cli.packages import SERVER, extra_with, missing_package

WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Gone(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {gone!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Gone())
sys.argv = ["lakequeue", *{arguments!r}]
from lakequeue_cli.start import main
main()
"""


@pytest.mark.parametrize(
    ("gone", "arguments", "extra"),
    [
        ("typer", ["topic", "list"], "cli"),
        ("rich", [], "cli"),
        ("kazoo", ["doctor"], "all"),
        ("flask", ["run", "ingest"], "all"),
        ("deltalake", ["job", "run", "retention", "--root", "r"], "all"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    gone: str, arguments: list[str], extra: str, tmp_path: Path
) -> None:
    program = WITHOUT.format(gone={gone}, arguments=arguments)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 6, done.stderr
    error, said = done.stderr.splitlines()
    assert gone.replace("_", "-") in error
    assert said == f"hint: {pip_install(extra)}"


def test_every_package_of_the_server_is_in_an_extra() -> None:
    required = requires("lakequeue") or []
    found = {name: extra_with(name, required) for name in SERVER}
    assert None not in found.values()
    assert (found["kazoo"], found["pyspark"]) == ("server", "spark")
    assert extra_with("typer", required) == "cli"
    assert missing_package("nowhere", []) is None
    assert missing_package("os", ["up"]) is None
