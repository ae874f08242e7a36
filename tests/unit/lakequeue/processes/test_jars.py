"""The set of jars: named without gaps, and a cache that is only used when it is whole."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from lakequeue.processes.jars import JARS, cached_jars, module_descriptor, set_folder


def fill(cache: Path, jars: int) -> None:
    folder = set_folder(cache)
    folder.mkdir(parents=True)
    for jar in JARS[:jars]:
        (folder / jar.file_name).write_bytes(b"jar")


def test_ivy_is_asked_for_exactly_these_and_resolves_nothing() -> None:
    tree = ET.fromstring(module_descriptor(JARS))  # noqa: S314 - our own text
    asked = {(d.get("org"), d.get("name"), d.get("rev")) for d in tree.iter("dependency")}
    assert asked == {(jar.group, jar.name, jar.version) for jar in JARS}
    assert {d.get("transitive") for d in tree.iter("dependency")} == {"false"}


def test_a_whole_cache_is_used(tmp_path: Path) -> None:
    fill(tmp_path, len(JARS))
    found = cached_jars(tmp_path)
    assert found is not None
    assert [path.name for path in found] == [jar.file_name for jar in JARS]


def test_a_cache_with_a_missing_jar_is_not_used(tmp_path: Path) -> None:
    fill(tmp_path, len(JARS) - 1)
    assert cached_jars(tmp_path) is None


def test_a_cache_with_an_empty_jar_is_not_used(tmp_path: Path) -> None:
    fill(tmp_path, len(JARS))
    (set_folder(tmp_path) / JARS[0].file_name).write_bytes(b"")
    assert cached_jars(tmp_path) is None


def test_a_set_of_the_callers_is_found_in_its_own_folder(tmp_path: Path) -> None:
    fill(tmp_path, len(JARS))
    assert cached_jars(tmp_path, JARS[1:]) is None
    folder = set_folder(tmp_path, JARS[1:])
    folder.mkdir()
    for jar in JARS[1:]:
        (folder / jar.file_name).write_bytes(b"jar")
    assert cached_jars(tmp_path, JARS[1:]) == [folder / jar.file_name for jar in JARS[1:]]


def test_another_set_has_another_folder(tmp_path: Path) -> None:
    assert set_folder(tmp_path, JARS) != set_folder(tmp_path, JARS[1:])
