"""What counts of a table that other engines have changed, kept beside a checkpoint of Delta's.

A checkpoint of such a table has what a reader of Delta sees. What counts stood in the commits
alone: they had to stay until a repair, however many came, and whoever opened the table read all of
them. Now it is written down for a version that has a checkpoint, and the commits before may go.
Readers of Delta do not look into this folder; the queue does if a checkpoint cannot be trusted.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable

from lakequeue.errors import CorruptTable
from lakequeue.records import Version
from queue_tables.delta.actions import Action, CommitInfo, Metadata, Protocol, encode
from queue_tables.delta.commit_json import parse
from queue_tables.delta.store import Store

_FOLDER = "_delta_log/_lakequeue"
_NAME = re.compile(r"counts-(\d+)\.json\Z")
"""Not of 20 digits: engines take a file of such a name for a commit, wherever it lies."""
_FOREIGN = "foreign"


class Counted:
    """What stands in such a file."""

    def __init__(self, actions: Iterable[Action], foreign: Version) -> None:
        self.actions = tuple(actions)
        """Protocol, metadata, marks and files."""
        self.foreign = foreign
        """The newest commit of another engine that did not count."""


def counted_path(table_path: str, version: Version) -> str:
    """Where what counts at a version is written down."""
    return f"{table_path}/{_FOLDER}/counts-{version}.json"


def write_counted(store: Store, table_path: str, version: Version, counted: Counted) -> None:
    """Write it down, durable. Whoever writes the same version writes the same."""
    info = CommitInfo(lakequeue={_FOREIGN: counted.foreign})
    with contextlib.suppress(FileExistsError):
        store.put_new(counted_path(table_path, version), encode([info, *counted.actions]))


def read_counted(store: Store, table_path: str, version: Version) -> Counted | None:
    """What was written down for a version; None: nothing, or nothing that can be read."""
    path = counted_path(table_path, version)
    try:
        read = parse(version, store.get(path), table_path)
    except (FileNotFoundError, CorruptTable):
        return None
    kinds = {type(action) for action in read.actions}
    foreign = read.info.get(_FOREIGN)
    if not {Metadata, Protocol} <= kinds or not isinstance(foreign, int):
        return None
    return Counted((a for a in read.actions if not isinstance(a, CommitInfo)), Version(foreign))


def counted_versions(store: Store, table_path: str) -> set[Version]:
    """The versions for which something is written down."""
    names = store.names(f"{table_path}/{_FOLDER}")
    return {Version(int(match[1])) for name in names if (match := _NAME.match(name))}


def delete_counted(store: Store, table_path: str, below: Version) -> None:
    """Delete what is written down for versions under `below`."""
    for version in counted_versions(store, table_path):
        if version < below:
            store.delete(counted_path(table_path, version))
