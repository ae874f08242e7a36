"""What failed is run once more, and never hidden."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.run_services import MOST

REPOSITORY = Path(__file__).parents[3]

TESTS = """
from pathlib import Path
import pytest

RUNS = Path(__file__).with_name("runs")


def test_steady():
    pass


@pytest.mark.parametrize("number", range({count}))
def test_shaky(number):
    with RUNS.open("a") as runs:
        runs.write(f"{{number}}\\n")
    seen = RUNS.read_text().split().count(str(number))
    assert seen >= {passes_at}
"""


@pytest.mark.parametrize(
    ("count", "passes_at", "code", "runs_each", "unstable"),
    [
        (MOST, 2, 0, 2, True),
        (1, 3, 1, 2, False),
        (MOST + 1, 2, 1, 1, False),
    ],
    ids=["pass when repeated", "fail again", "too many"],
)
def test_what_fails_is_run_once_more_and_named(
    tmp_path: Path, count: int, passes_at: int, code: int, runs_each: int, unstable: bool
) -> None:
    file = tmp_path / "test_sample.py"
    file.write_text(TESTS.format(count=count, passes_at=passes_at))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    ended = subprocess.run(
        [sys.executable, "-m", "tools.run_services", "-c", str(tmp_path / "pytest.ini"), str(file)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == code, ended.stdout
    assert (tmp_path / "runs").read_text().split().count("0") == runs_each
    assert ("UNSTABLE" in ended.stdout) == unstable
    if unstable:
        assert "test_shaky[0]" in ended.stdout.partition("UNSTABLE")[2]
        assert "test_steady" not in ended.stdout.partition("UNSTABLE")[2]


def test_a_run_that_could_not_begin_is_not_repeated(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tools.run_services", str(tmp_path / "missing.py")],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == pytest.ExitCode.USAGE_ERROR
    assert "once more" not in ended.stdout
