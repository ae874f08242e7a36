"""What a release must have."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.check_release import faults_of, tag_faults, unreleased, version_of

PROJECT = Path(__file__).parents[3]
GOOD = """# Changelog

## [Unreleased]

- new

## [1.1.0] - 2026-02-01

- a

## [1.0.0] - 2026-01-01
"""


def test_the_newest_release_of_the_changelog_is_the_version_of_the_project() -> None:
    assert list(faults_of((PROJECT / "CHANGELOG.md").read_text(), version_of(PROJECT))) == []


@pytest.mark.parametrize(
    ("changelog", "fault"),
    [
        (GOOD.replace("[1.1.0]", "[1.2.0]"), "the version is 1.1.0, the newest release"),
        (GOOD.replace(" - 2026-01-01", ""), "1.0.0 has no date"),
        (GOOD.replace("2026-01-01", "2026-03-01"), "not in order"),
        (GOOD.replace("## [Unreleased]\n", ""), "does not begin with"),
        ("# Changelog\n\n## [Unreleased]\n", "the newest release of CHANGELOG.md none"),
    ],
)
def test_a_changelog_that_does_not_fit_is_named(changelog: str, fault: str) -> None:
    (found,) = faults_of(changelog, "1.1.0")
    assert fault in found


def test_what_is_not_released_stands_under_its_heading() -> None:
    assert list(faults_of(GOOD, "1.1.0")) == []
    assert unreleased(GOOD) == "- new"
    assert unreleased(GOOD.replace("- new\n", "")) == ""


def test_a_release_needs_a_tag_and_nothing_that_is_not_released(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ["-c", "user.name=t", "-c", "user.email=t@t"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    git("commit", "--allow-empty", "-m", "1.1.0")
    assert list(tag_faults(tmp_path, "v1.1.0", GOOD)) == [
        "there is no tag v1.1.0: git tag -a v1.1.0"
    ]
    git("tag", "-a", "v1.1.0", "-m", "1.1.0")
    (found,) = tag_faults(tmp_path, "v1.1.0", GOOD)
    assert "has lines that are not released" in found
    assert list(tag_faults(tmp_path, "v1.1.0", GOOD.replace("- new\n", ""))) == []
    git("commit", "--allow-empty", "-m", "next")
    assert list(tag_faults(tmp_path, "v1.1.0", GOOD)) == []
