"""How a program of ours is started: with our packages, whatever folder its user stands in.

`python -m jobs.driver` looks for `jobs` in the working directory first. A user's repository may
well have a folder of that name. So our programs are started with `-P`, which leaves the working
directory out, and with the folder of our packages at the head of `PYTHONPATH`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

PACKAGES = str(Path(__file__).resolve().parents[2])
"""The folder that our packages are installed in."""


def command(module: str, python: str = sys.executable) -> tuple[str, ...]:
    """`python -m module`, of our packages. To be run with `environment`."""
    return (python, "-P", "-m", module)


def environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """`given`, or that of this process, for a program of ours and all Python that it starts."""
    kept = dict(os.environ if given is None else given)
    return kept | {
        # As `-P`: Spark starts Python workers in the same directory.
        "PYTHONSAFEPATH": "1",
        "PYTHONPATH": os.pathsep.join(_packages_first(kept.get("PYTHONPATH", ""))),
    }


def become(module: str, *arguments: str) -> None:
    """Replace this process by a program of ours, so that signals and the exit code are its own."""
    os.execve(sys.executable, [*command(module), *arguments], environment())


def packages_first() -> None:
    """In this process, which is one of our own programs: our packages before all others."""
    if sys.path[:1] != [PACKAGES]:
        sys.path.insert(0, PACKAGES)


def _packages_first(path: str) -> list[str]:
    others = [folder for folder in path.split(os.pathsep) if folder and folder != PACKAGES]
    return [PACKAGES, *others]


def add_parent_option(parser: argparse.ArgumentParser) -> None:
    """`--die-with-parent`, for what a supervisor starts: a pid, 0 if none is named, else None."""
    parser.add_argument(
        "--die-with-parent",
        nargs="?",
        const=0,
        type=int,
        metavar="PID",
        help="end when the parent does; PID is the parent's, checked against having ended already",
    )
