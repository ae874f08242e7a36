"""Sizes that a reader feels: lines of a module, modules of a folder, the subject of a commit.

    python -m tools.check_sizes

There is no exemption: what is too large is parted. Subjects of commits count since `_SINCE`. A
history that does not reach so far back (an archive, a shallow clone) is not looked at.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

LINES = 400
MODULES = 15
SUBJECT = 72
_NOT_COUNTED = {"__init__.py", "__main__.py", "conftest.py"}
_SINCE = "f20ba73014130f65e93dda6b72ac4efc6d58f55e"
"""The last commit whose subject nobody looked at."""


def long_modules(modules: Mapping[str, str]) -> Iterator[str]:
    """Those of more than `LINES` lines."""
    for path, text in sorted(modules.items()):
        lines = text.count("\n")
        if lines > LINES:
            yield f"{path} has {lines} lines, of {LINES}: part it by what it is about"


def full_folders(paths: Iterable[str]) -> Iterator[str]:
    """Folders with more than `MODULES` modules side by side."""
    there: dict[str, int] = defaultdict(int)
    for path in map(PurePosixPath, paths):
        there[str(path.parent)] += path.name not in _NOT_COUNTED
    for folder, count in sorted(there.items()):
        if count > MODULES:
            yield f"{folder}/ has {count} modules, of {MODULES}: give some of them a room"


def long_subjects(subjects: Iterable[str]) -> Iterator[str]:
    """Subjects that a list of commits cuts off."""
    for subject in subjects:
        if len(subject) > SUBJECT:
            yield f"a commit's subject has {len(subject)} characters, of {SUBJECT}: {subject}"


def faults(project: Path, since: str = _SINCE) -> list[str]:
    """Everything that is too large in a working copy."""
    paths = [path for path in _git(project, "ls-files", "*.py") if (project / path).is_file()]
    modules = {path: (project / path).read_text() for path in paths}
    subjects = _new_subjects(project, since)
    return [*long_modules(modules), *full_folders(paths), *long_subjects(subjects)]


def _new_subjects(project: Path, since: str) -> list[str]:
    known = ["git", "merge-base", "--is-ancestor", since, "HEAD"]
    if subprocess.run(known, cwd=project, check=False, capture_output=True).returncode:
        return []
    return _git(project, "log", "--no-merges", "--format=%s", f"{since}..HEAD")


def _git(project: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        ["git", *arguments], cwd=project, check=True, capture_output=True, text=True
    )
    return done.stdout.splitlines()


def main(project: Path) -> int:
    """Print what is too large; an exit code."""
    found = faults(project)
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path.cwd()))
