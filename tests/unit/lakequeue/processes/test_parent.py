"""A child that was told its parent's pid ends when that is not its parent any more."""

import os
import signal
import subprocess
import sys
from pathlib import Path

CHILD = """
from lakequeue.processes.parent import die_with_parent
die_with_parent({})
print("alive")
"""


def run(expected: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CHILD.format(expected)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[4],
    )


def test_a_child_of_a_living_parent_goes_on() -> None:
    assert run(os.getpid()).stdout == "alive\n"


def test_a_child_whose_parent_died_before_it_asked_ends() -> None:
    done = run(os.getpid() + 1)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == ""
