"""No step of any protocol is without a test that crashes at it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lakequeue.steps import Step

HERE = Path(__file__).parents[3]
FOLDERS = (
    "faults",
    *(f"integration/{room}" for room in ("client", "ingest", "consumer_service", "upgrade")),
)
COLLECT = [*(sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:schemathesis")]


@pytest.mark.timeout(300)
def test_every_step_is_crashed_at_by_a_test_that_names_it() -> None:
    # Tests that crash at steps have them as parameters, so their names hold them.
    files = [
        str(file)
        for folder in FOLDERS
        for file in (HERE / "tests" / folder).rglob("test_*.py")
        if "lakequeue.steps" in file.read_text()
    ]
    done = subprocess.run(
        [*COLLECT, *files],
        cwd=HERE,
        check=True,
        capture_output=True,
        text=True,
    )
    assert not [step for step in Step if step not in done.stdout]
