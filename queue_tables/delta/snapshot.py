"""The state of a table at a version: newest checkpoint, then the commits after it."""

from __future__ import annotations

import contextlib
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import unquote

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakequeue.errors import CorruptTable
from lakequeue.records import Version
from queue_tables.delta.actions import (
    Action,
    Add,
    Commit,
    Metadata,
    Protocol,
    Remove,
    Txn,
    checkpoint_part,
    commit_path,
    commit_version,
)
from queue_tables.delta.commit_json import (
    add_from,
    metadata_from,
    parse,
    parse_or_pass,
    protocol_from,
    txn_from,
    unreadable,
)
from queue_tables.delta.counting import Counted, counted_versions, read_counted, write_counted
from queue_tables.delta.guard import FOREIGN_TXN, GUARDED_TXN, REPAIRED_TXN, is_guarded
from queue_tables.delta.store import Store

_NOTHING = Version(-1)
_BASE = Protocol()
_OWN_PROPERTIES = "lakequeue."
"""Table properties that begin so are the queue's: a shard is sealed, a Spark query is quiet."""
_UNREADABLE = (pa.ArrowException, OSError, KeyError, ValueError, TypeError, AttributeError)
"""What reading a checkpoint raises that is half-written, or says what makes no sense."""
_ADD_FIELDS = (
    "path",
    "partitionValues",
    "size",
    "modificationTime",
    "dataChange",
    "stats",
    "deletionVector",
)


@dataclass
class Snapshot:
    """A table at `version`. With `keep_files=False` the files are not kept in memory.

    Once a table is guarded no other engine has any business in it. What one brings or takes out
    nevertheless does not count: the files are those that the queue's own commits say, whatever a
    reader of Delta sees, until `lakequeue repair` has made the two the same. `every_engine`: as
    a reader of Delta sees it.
    """

    version: Version = _NOTHING
    files: dict[str, Add] = field(default_factory=dict)
    txns: dict[str, int] = field(default_factory=dict)
    metadata: Metadata | None = None
    protocol: Protocol = _BASE
    foreign: Version = _NOTHING
    """The newest commit of another engine that did not count."""
    guarded: bool = False
    """It is, or was at an earlier version."""
    every_engine: bool = False
    keep_files: bool = True
    from_v2: bool = False
    """It was read from a checkpoint of version 2, which Spark reads with that feature only."""
    torn: dict[Version, str] = field(default_factory=dict)
    """Commits that cannot be read and were passed, and why."""

    @property
    def configuration(self) -> Mapping[str, str]:
        """The table properties."""
        return self.metadata.configuration if self.metadata else {}

    @property
    def schema_string(self) -> str:
        """The schema, as Delta's JSON."""
        return self.metadata.schema_string if self.metadata else ""

    @property
    def is_settled(self) -> bool:
        """Whether the files are what a reader of Delta sees, as far as marks tell."""
        foreign = max(self.foreign, self.txns.get(FOREIGN_TXN, _NOTHING))
        return foreign <= self.txns.get(REPAIRED_TXN, _NOTHING)

    def apply(self, commit: Commit) -> Commit:
        """Move to `commit`, which must be the next version; what of it counts."""
        if commit.version != self.version + 1:
            raise ValueError(f"commit {commit.version} does not follow version {self.version}")
        commit = self._counting(commit)
        # Removes first: a file that gets a deletion vector leaves the table and comes back.
        for removed in commit.removes:
            self.files.pop(removed.path, None)
        for action in commit.actions:
            match action:
                case Add() if self.keep_files:
                    self.files[action.path] = self.placed(action)
                case Txn():
                    self.txns[action.app_id] = action.version
                case Metadata():
                    self.metadata = action
                case Protocol():
                    self.protocol = action
                    self.guarded = self.guarded or is_guarded(action)
        self.version = commit.version
        return commit

    def _counting(self, commit: Commit) -> Commit:
        """What of a commit counts. Raises `CorruptTable` if that makes no sense."""
        if commit.torn:
            self.torn[commit.version] = commit.torn
        if self.every_engine or commit.torn:
            return commit
        if commit.foreign and self.guarded:
            if commit.has_effect:
                self.foreign = commit.version
            return _as_counts(commit, self.configuration)
        if commit.faults:
            # The table was open to every engine then.
            raise unreadable(commit.version, commit.faults[0])
        return commit

    def placed(self, add: Add) -> Add:
        """The file with a value, perhaps none, of each partition column."""
        columns = self.metadata.partition_columns if self.metadata else ()
        if add.partition_values.keys() >= set(columns):
            return add
        return replace(add, partition_values=dict.fromkeys(columns) | dict(add.partition_values))


def _as_counts(foreign: Commit, before: Mapping[str, str]) -> Commit:
    """The commit without what it does to files, marks and the queue's own properties.

    `before`: the properties so far. A shard that is sealed stays so, also if it is restored.
    """
    own = {k: v for k, v in before.items() if k.startswith(_OWN_PROPERTIES)}
    kept: list[Action] = []
    for action in foreign.actions:
        if isinstance(action, Metadata):
            said = action.configuration.items()
            others = {k: v for k, v in said if not k.startswith(_OWN_PROPERTIES)}
            kept.append(replace(action, configuration={**others, **own}))
        elif not isinstance(action, Add | Remove | Txn):
            kept.append(action)
    return Commit(foreign.version, tuple(kept))


def load_snapshot(
    store: Store,
    table_path: str,
    *,
    keep_files: bool = True,
    at: Version | None = None,
    every_engine: bool = False,
    pass_torn: bool = False,
) -> Snapshot:
    """Read the newest state of a table, or that of version `at`.

    `pass_torn`: a commit that cannot be read counts as an empty one. Raises `FileNotFoundError` if
    there is no table, `CorruptTable` if commits are missing, or torn.
    """
    read = parse_or_pass if pass_torn else parse
    for attempt in range(3):
        try:
            blank = Snapshot(keep_files=keep_files, every_engine=every_engine)
            return _load(store, table_path, blank, at, read)
        except _Moved:
            # Log clean-up ran between the listing and the reading; the newer checkpoint is there.
            if attempt == 2:
                break
    raise CorruptTable(
        f"{table_path}: commits of the Delta log are missing, and no checkpoint stands for them",
        hint="restore the missing files of _delta_log from a backup",
    )


class _Moved(Exception):
    """A file that was listed is gone, or a commit is missing."""


def checkpoint_versions(store: Store, table_path: str) -> list[Version]:
    """Versions of the checkpoints all of whose parts are there, rising."""
    return sorted({key[0] for key in _complete(store.names(f"{table_path}/_delta_log"))})


def is_readable_checkpoint(store: Store, table_path: str, version: Version) -> bool:
    """Whether the checkpoint at that version can stand for the commits before it.

    One that has what does not count can if it is written down what does (`counting`).
    """
    for key, names in _complete(store.names(f"{table_path}/_delta_log")).items():
        if key[0] == version:
            with contextlib.suppress(*_UNREADABLE):
                found = _read_checkpoint(store, table_path, version, names, Snapshot())
                if _is_trusted(found) or read_counted(store, table_path, version) is not None:
                    return True
    return False


def write_down_what_counts(store: Store, table_path: str, version: Version) -> None:
    """Do so if the checkpoint at that version has what does not count; else nothing happens."""
    found = load_snapshot(store, table_path, at=version)
    if found.version != version or found.metadata is None or not found.guarded:
        return  # one from before the guard has all that counted then
    if not found.is_settled:
        marks = [Txn(name, value) for name, value in found.txns.items()]
        actions: list[Action] = [found.protocol, found.metadata, *marks, *found.files.values()]
        foreign = max(found.foreign, Version(found.txns.get(FOREIGN_TXN, _NOTHING)))
        write_counted(store, table_path, version, Counted(actions, foreign))


_Key = tuple[Version, int, str]
"""Version, parts and own name of a checkpoint."""


def _complete(names: Iterable[str]) -> dict[_Key, list[str]]:
    """The files of each checkpoint that has all its parts."""
    parts: dict[_Key, list[str]] = defaultdict(list)
    for name in names:
        if (found := checkpoint_part(name)) is not None:
            parts[found.version, found.parts, found.own_name].append(name)
    return {key: found for key, found in parts.items() if len(found) == key[1]}


def _is_trusted(checkpoint: Snapshot) -> bool:
    """Whether its files are those that count."""
    return checkpoint.guarded and checkpoint.is_settled


def _load(
    store: Store,
    table_path: str,
    blank: Snapshot,
    at: Version | None,
    read: Callable[[int, bytes, str], Commit],
) -> Snapshot:
    names = store.names(f"{table_path}/_delta_log")
    commits = {v for n in names if (v := commit_version(n)) is not None}
    complete = _complete(names)
    if at is not None:
        commits = {version for version in commits if version <= at}
        complete = {key: parts for key, parts in complete.items() if key[0] <= at}
    if not commits and not complete:
        raise FileNotFoundError(f"no Delta table at {table_path}")

    snapshot = _start(store, table_path, complete, commits, blank)
    while at is None or snapshot.version < at:
        version = snapshot.version + 1
        try:
            data = store.get(commit_path(table_path, version))
        except FileNotFoundError:
            break
        snapshot.apply(read(version, data, table_path))
    if snapshot.version < max(commits, default=-1) or snapshot.metadata is None:
        raise _Moved
    return snapshot


def _start(
    store: Store,
    table_path: str,
    complete: Mapping[_Key, list[str]],
    commits: set[Version],
    blank: Snapshot,
) -> Snapshot:
    """What the commits are applied to: the newest checkpoint that can be read, and be trusted.

    One that has what other engines did is skipped as long as older ones, or the first commit,
    lead to the end: best one that is trusted, else one from before there was a guard.
    """
    newest: Snapshot | None = None
    unguarded: Snapshot | None = None
    below: int | None = None
    last = max(commits, default=_NOTHING)
    for key in sorted(complete, reverse=True):
        if newest is not None and not _are_there(commits, key[0], last):
            break
        if below is not None and key[0] >= below:
            continue
        try:
            found = _read_checkpoint(store, table_path, key[0], complete[key], blank)
        except _UNREADABLE:
            # A half-written checkpoint stands for nothing; an older one, or the commits, do.
            continue
        if blank.every_engine or _is_trusted(found):
            return found
        newest = newest or found
        if not found.is_settled:
            # All from there on have the same in them, and there may be thousands.
            below = found.txns[FOREIGN_TXN]
        if unguarded is None and not found.guarded and GUARDED_TXN not in found.txns:
            unguarded = found
    if newest is None or _are_there(commits, _NOTHING, last):
        return replace(blank, files={}, txns={}, torn={})
    return _written_down(store, table_path, commits, blank) or unguarded or newest


def _written_down(
    store: Store, table_path: str, commits: set[Version], blank: Snapshot
) -> Snapshot | None:
    """The newest version of which it is written down what counts, and that leads to the end."""
    for version in sorted(counted_versions(store, table_path), reverse=True):
        told = read_counted(store, table_path, version)
        if told is not None and _are_there(commits, version, max(commits, default=_NOTHING)):
            snapshot = replace(blank, version=Version(version - 1), files={}, txns={}, torn={})
            snapshot.apply(Commit(version, told.actions))
            snapshot.guarded, snapshot.foreign = True, told.foreign
            return snapshot
    return None


def _are_there(commits: set[Version], after: Version, last: Version) -> bool:
    return all(version in commits for version in range(after + 1, last + 1))


def _read_checkpoint(
    store: Store, table_path: str, version: Version, names: list[str], blank: Snapshot
) -> Snapshot:
    snapshot = replace(blank, version=version, files={}, txns={}, torn={})
    log = f"{table_path}/_delta_log"
    for name in sorted(names):
        sidecars = _take_in(snapshot, name, store.get(f"{log}/{name}"))
        part = checkpoint_part(name)
        snapshot.from_v2 |= bool(sidecars or (part and part.own_name))
        # Of version 2: its files may stand beside it, in as many as its writer liked.
        for sidecar in sidecars if blank.keep_files else ():
            beside = unquote(sidecar["path"]).rpartition("/")[2]
            _take_in(snapshot, beside, store.get(f"{log}/_sidecars/{beside}"))
    if snapshot.metadata is None:
        raise KeyError("metaData")
    return snapshot


def _take_in(snapshot: Snapshot, name: str, data: bytes) -> list[dict[str, Any]]:
    """Take what a file of a checkpoint says into the snapshot; the sidecars that it names."""
    if name.endswith(".json"):
        lines = [orjson.loads(line) for line in data.splitlines() if line.strip()]
        read = partial(_of_lines, lines)
    else:
        columns = ["txn", "metaData", "protocol", "sidecar"]
        if snapshot.keep_files:
            columns += [f"add.{field}" for field in _ADD_FIELDS]
        read = partial(_rows, pq.ParquetFile(io.BytesIO(data)).read(columns=columns))
    for body in read("protocol"):
        snapshot.protocol = protocol_from(body)
        snapshot.guarded = is_guarded(snapshot.protocol)
    for body in read("metaData"):
        snapshot.metadata = metadata_from(_without_maps(body, "configuration"))
    for body in read("txn"):
        txn = txn_from(body)
        snapshot.txns[txn.app_id] = txn.version
    for body in read("add") if snapshot.keep_files else ():
        add = add_from(_without_maps(body, "partitionValues"))
        snapshot.files[add.path] = snapshot.placed(add)
    return read("sidecar")


def _of_lines(lines: list[dict[str, Any]], action: str) -> list[dict[str, Any]]:
    return [line[action] for line in lines if action in line]


def _rows(table: pa.Table, column: str) -> list[dict[str, Any]]:
    if column not in table.column_names:
        return []
    values = table.column(column)
    rows: list[dict[str, Any]] = values.filter(pc.is_valid(values)).to_pylist()
    return rows


def _without_maps(body: dict[str, Any], key: str) -> dict[str, Any]:
    return body | {key: dict(body.get(key) or ())}
