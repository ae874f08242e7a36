"""Which archive of classes a session starts with, and what becomes of the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakequeue.processes.class_archive import class_archive, java_options, keep
from lakequeue.processes.java import cache_dir

LONG_AGO_S = 1_000_000_000.0


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache, in a folder with a space in its name."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    folder = cache_dir(os.environ)
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    path = tmp_path / "delta.jar"
    path.write_bytes(b"classes")
    return path


def made(cache: Path, content: bytes = b"an archive") -> Path:
    path = cache / "made.jsa"
    path.write_bytes(content)
    return path


def test_it_is_that_of_these_jars_and_whole(cache: Path, jar: Path) -> None:
    assert java_options([jar]) == ""
    kept = keep(made(cache), [jar])
    assert class_archive([jar]) == kept
    assert java_options([jar]) == f'"-XX:SharedArchiveFile={kept}" -XX:+VerifySharedSpaces'
    assert class_archive([]) is None, "another class path"
    kept.write_bytes(b"an arch")  # a Java machine would die of it
    assert class_archive([jar]) is None
    kept.write_bytes(b"an archive")
    assert class_archive([jar]) == kept
    jar.write_bytes(b"other classes")
    assert class_archive([jar]) is None


def test_it_is_that_of_the_spark_that_is_started(
    cache: Path, jar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(made(cache), [jar])
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core.jar").write_bytes(b"classes")
    assert class_archive([jar]) is None


def test_it_takes_the_place_of_those_that_nobody_needs(cache: Path, jar: Path) -> None:
    before, theirs = keep(made(cache), [jar]), keep(made(cache), [])
    unused = keep(made(cache), [jar, jar])
    left = cache / "classes-left"
    left.mkdir()
    being_made = cache / "classes-being-made"
    being_made.mkdir()
    for path in (unused, left):
        os.utime(path, (LONG_AGO_S, LONG_AGO_S))
    after = keep(made(cache, b"a longer archive"), [jar])
    assert set(cache.iterdir()) == {after, theirs, being_made}
    assert before != after


def test_one_with_which_sessions_start_stays(cache: Path, jar: Path) -> None:
    kept = keep(made(cache), [jar])
    os.utime(kept, (LONG_AGO_S, LONG_AGO_S))
    assert java_options([jar])
    keep(made(cache), [])
    assert kept.exists()
