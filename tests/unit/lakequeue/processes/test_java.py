"""Choosing a Java: versions as they are printed, and the errors when none fits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lakequeue.errors import MissingDependency
from lakequeue.processes.java import (
    QUICK_COMPILER,
    Candidate,
    candidates,
    choose,
    java_command,
    parse_major,
    probe,
    wrap,
)

SPARK_PAGE = Path(__file__).parents[4] / "docs/spark.md"


@pytest.mark.parametrize(
    ("printed", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25.0.2" 2026-01-20', 25),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ("", None),
    ],
)
def test_the_major_version_is_read(printed: str, major: int | None) -> None:
    assert parse_major(printed) == major


def found(name: str) -> Candidate:
    return Candidate(Path(f"/{name}/bin/java"), name)


def test_the_first_that_fits_is_taken() -> None:
    chosen, major = choose(iter([(found("a"), 11), (found("b"), None), (found("c"), 21)]))
    assert (chosen.source, major) == ("c", 21)


def test_a_wrong_version_is_named_with_the_remedy() -> None:
    with pytest.raises(MissingDependency) as caught:
        choose(iter([(found("JAVA_HOME"), 11), (found("PATH"), None)]))
    message = str(caught.value)
    assert "/JAVA_HOME/bin/java (JAVA_HOME) is Java 11" in message
    assert "/PATH/bin/java (PATH) does not answer" in message
    assert "apt-get install openjdk-17-jre-headless" in message


def test_no_java_at_all_says_so() -> None:
    with pytest.raises(MissingDependency, match="no Java found; 17 or 21 is needed"):
        choose(iter([]))


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    on_path = tmp_path / "path" / "java"
    on_path.parent.mkdir()
    on_path.write_text("#!/bin/sh\n")
    on_path.chmod(0o755)
    environ = {"JAVA_HOME": "/opt/java", "PATH": str(on_path.parent)}
    sources = [candidate.source for candidate in candidates(environ)]
    assert sources[:2] == ["JAVA_HOME", "PATH"]


def test_a_program_that_is_missing_does_not_answer(tmp_path: Path) -> None:
    assert probe(tmp_path / "java") is None


def test_the_wrapper_drops_one_flag_and_keeps_every_other_word(tmp_path: Path) -> None:
    inner = tmp_path / "jre" / "bin" / "java"
    inner.parent.mkdir(parents=True)
    inner.write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:])\n")
    inner.chmod(0o755)
    home = wrap(tmp_path / "jre", tmp_path / "wrapped")
    words = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", "", "*"]
    printed = subprocess.run(
        [home / "bin" / "java", *words], check=True, capture_output=True, text=True
    ).stdout
    kept = [word for word in words if not word.startswith("--add-modules")]
    assert printed.strip().endswith(str(kept)[1:])
    assert wrap(tmp_path / "jre", tmp_path / "wrapped") == home


def test_the_quick_compiler_has_room_for_what_it_makes() -> None:
    """Else it stops when 48 MB are full, which is after seconds in a session of Spark."""
    told = [java_command(), *QUICK_COMPILER.split(), "-XX:+PrintFlagsFinal", "-version"]
    flags = subprocess.run(told, capture_output=True, text=True, check=True).stdout.split()
    assert int(flags[flags.index("ReservedCodeCacheSize") + 2]) == 160 << 20
    assert all(option in SPARK_PAGE.read_text() for option in QUICK_COMPILER.split())
