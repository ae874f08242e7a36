"""Whether a release is whole: its number, its part of the CHANGELOG, its tag, its wheel.

    python -m tools.check_release

The steps of a release are in CONTRIBUTING.md. Exit code 1 if something is missing.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

_HEADING = re.compile(r"^## \[(?P<name>[^\]]+)\](?: - (?P<date>\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)
UNRELEASED = "Unreleased"


def faults_of(changelog: str, version: str) -> Iterator[str]:
    """What the CHANGELOG lacks for the release of `version`. Pure."""
    found = list(_HEADING.finditer(changelog))
    names = [one["name"] for one in found]
    if names[:1] != [UNRELEASED]:
        yield f"CHANGELOG.md does not begin with [{UNRELEASED}]"
    released = [one for one in found if one["name"] != UNRELEASED]
    if not released or released[0]["name"] != version:
        newest = released[0]["name"] if released else "none"
        yield f"the version is {version}, the newest release of CHANGELOG.md {newest}"
    yield from (f"{one['name']} has no date" for one in released if one["date"] is None)
    dates = [one["date"] for one in released if one["date"] is not None]
    if dates != sorted(dates, reverse=True):
        yield "the releases of CHANGELOG.md are not in order, the newest first"


def unreleased(changelog: str) -> str:
    """What stands under *Unreleased*. Pure."""
    _, _, rest = changelog.partition(f"## [{UNRELEASED}]")
    return rest.partition("\n## [")[0].strip()


def version_of(project: Path) -> str:
    """The version that pyproject.toml declares."""
    declared = tomllib.loads((project / "pyproject.toml").read_text())
    return str(declared["project"]["version"])


def faults(project: Path) -> list[str]:
    """Everything that the release lacks."""
    version, changelog = version_of(project), (project / "CHANGELOG.md").read_text()
    return [
        *faults_of(changelog, version),
        *tag_faults(project, f"v{version}", changelog),
        *_wheel_faults(project, version),
    ]


def tag_faults(project: Path, tag: str, changelog: str) -> Iterator[str]:
    """Whether the release is tagged, and the tag is of what is released."""
    tagged = _commit(project, f"refs/tags/{tag}")
    if tagged is None:
        yield f"there is no tag {tag}: git tag -a {tag}"
    elif tagged == _commit(project, "HEAD") and unreleased(changelog):
        yield f"{tag} is this commit, and CHANGELOG.md has lines that are not released"


def _commit(project: Path, name: str) -> str | None:
    command = ["git", "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"]
    done = subprocess.run(command, cwd=project, check=False, capture_output=True, text=True)
    return done.stdout.strip() or None


def _wheel_faults(project: Path, version: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        done = subprocess.run(build, cwd=project, check=False, capture_output=True, text=True)
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            yield f"the wheel cannot be built: {done.stderr.strip()[-500:]}"
            return
        with zipfile.ZipFile(wheels[0]) as wheel:
            metadata = wheel.read(f"lakequeue-{version}.dist-info/METADATA").decode()
        if f"\nVersion: {version}\n" not in metadata:
            yield f"the wheel is not of version {version}"


def main(project: Path) -> int:
    """Print what is missing; an exit code."""
    found = faults(project)
    for fault in found:
        print(fault)
    if not found:
        print(f"release {version_of(project)} is whole")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path.cwd()))
