"""Commits of a shard that cannot be read, and what they brought all the same.

The owner of a shard stores its data file before it commits. So a commit whose file was torn later
has its rows still there, in a file that no commit names, under a stamp between those of the commits
before and after.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow.compute as pc

from lakequeue.errors import CorruptTable
from lakequeue.records import Stamp, Version
from queue_tables.delta.actions import Add, Commit, commit_path
from queue_tables.delta.commit_json import parse_or_pass
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.delta.stamps import LAST_STAMP, sound_stamp
from queue_tables.delta.store import Store
from queue_tables.delta.tail import commit_versions
from queue_tables.files.parquet import read_data_file


class Unnamed(NamedTuple):
    """A data file that no commit names."""

    path: str
    """Relative to the table."""
    stamp: Stamp
    rows: int


def brought_by(store: Store, path: str, version: Version) -> list[Unnamed]:
    """The files that the torn commit of that version may have named, by stamp; [] if it had none.

    Of a group there is one. There may be another of an owner that died before its commit.
    """
    commits = list(kept_commits(store, path))
    named = set(load_snapshot(store, path, pass_torn=True).files)
    for commit in commits:
        named |= {add.path for add in commit.adds} | {gone.path for gone in commit.removes}
    low, high = neighbours(commits, version)
    found = []
    for full in store.sizes(path):
        name = full.removeprefix(f"{path}/")
        if not name.startswith("hour=") or name in named:
            continue
        if (one := _unnamed(store, path, name)) is not None and low < one.stamp < high:
            found.append(one)
    return sorted(found, key=lambda one: (one.stamp, one.path))


def kept_commits(store: Store, path: str) -> Iterator[Commit]:
    """The commits of a table whose files are there, rising; torn ones are empty."""
    for version in commit_versions(store, path):
        try:
            yield parse_or_pass(version, store.get(commit_path(path, version)), path)
        except FileNotFoundError:
            continue  # cleaned up meanwhile


def neighbours(commits: list[Commit], version: Version) -> tuple[Stamp, Stamp]:
    """The stamps of the commits with rows before and after a version."""
    stamps = {c.version: s for c in commits if c.appends and (s := sound_stamp(c)) is not None}
    low = max((s for v, s in stamps.items() if v < version), default=Stamp(0))
    high = min((s for v, s in stamps.items() if v > version), default=Stamp(LAST_STAMP))
    return low, high


def stamp_in(store: Store, path: str, add: Add) -> Stamp | None:
    """The stamp that the rows of a data file have; None if they have none, or several."""
    found = _unnamed(store, path, add.path)
    return None if found is None else found.stamp


def _unnamed(store: Store, path: str, name: str) -> Unnamed | None:
    try:
        stamps = read_data_file(store, path, name, ["stamp"])["stamp"]
    except (FileNotFoundError, CorruptTable):
        return None
    distinct = pc.unique(stamps).to_pylist()
    if len(distinct) != 1 or distinct[0] is None or not 0 < distinct[0] < LAST_STAMP:
        return None
    return Unnamed(name, Stamp(distinct[0]), len(stamps))
