"""The Delta protocol's actions, as far as the queue's tables use them, and their JSON. No I/O.

A commit file is one JSON object a line, each with one action. Paths are URL-encoded in the file
and plain here. What the queue says about its own commits stands in `commitInfo.lakequeue`.
Source: the Delta transaction log protocol, reader version 1, writer version 7 with the one feature
of `queue_tables.delta.guard`; of other features what has to be kept while files carry them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

import orjson

from lakequeue.records import Version

_COMMIT = re.compile(r"(\d{20})\.json\Z")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet\Z")
_NAMED_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.([0-9a-f-]{36})\.(?:parquet|json)\Z")
"""With a name of its own: of version 2, by an engine with `delta.checkpointPolicy` = v2."""
# The characters that Hadoop's Path and java.net.URI leave alone in a path.
_SAFE = "/=:@!$&'()*+,;~-._"
OWN_ENGINE = "lakequeue"


@dataclass(frozen=True, slots=True)
class Add:
    """A data file that belongs to the table from this commit on."""

    path: str
    """Relative to the table, not encoded."""
    size: int
    partition_values: Mapping[str, str | None] = field(default_factory=dict)
    modification_time: int = 0
    """Milliseconds since 1970 UTC."""
    data_change: bool = True
    """False: rows that were in the table before, rewritten (compaction)."""
    stats: str | None = None
    """JSON of numRecords, minValues, maxValues, nullCount."""
    deletion_vector: Mapping[str, Any] | None = None
    """Of another engine: which rows of the file are gone. The queue writes none."""

    def removal(self, now_ms: int, *, data_change: bool = True) -> Remove:
        """What takes the file out of the table."""
        return Remove(
            self.path,
            now_ms,
            data_change,
            self.partition_values,
            self.size,
            self.deletion_vector,
        )


@dataclass(frozen=True, slots=True)
class Remove:
    """A data file that does not belong to the table any more."""

    path: str
    deletion_timestamp: int = 0
    """Milliseconds since 1970 UTC."""
    data_change: bool = True
    partition_values: Mapping[str, str | None] | None = None
    size: int | None = None
    deletion_vector: Mapping[str, Any] | None = None
    """That of the file, which path and vector name together."""


@dataclass(frozen=True, slots=True)
class Txn:
    """The newest `version` of an application id: a watermark as durable as the rows beside it."""

    app_id: str
    version: int


@dataclass(frozen=True, slots=True)
class Metadata:
    """Schema and properties; each one replaces the one before."""

    id: str
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    created_time: int | None = None
    """Milliseconds since 1970 UTC."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """What a reader and a writer must understand."""

    min_reader_version: int = 1
    min_writer_version: int = 2
    reader_features: tuple[str, ...] | None = None
    """Sorted; named from reader version 3 on."""
    writer_features: tuple[str, ...] | None = None
    """Sorted; named from writer version 7 on."""


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """Provenance; `lakequeue` is what readers of the queue's commits go by."""

    lakequeue: Mapping[str, Any] = field(default_factory=dict)
    timestamp: int = 0
    """Milliseconds since 1970 UTC."""
    operation: str = "WRITE"
    txn_id: str | None = None
    """Random: makes a commit file recognisable to the one who wrote it."""
    engine: str = OWN_ENGINE
    """Who made the commit."""


Action: TypeAlias = Add | Remove | Txn | Metadata | Protocol | CommitInfo


@dataclass(frozen=True)
class Commit:
    """One version of a table."""

    version: Version
    actions: tuple[Action, ...]
    faults: tuple[str, ...] = ()
    """Of another engine's commit: what of it makes no sense, and is left out of `actions`."""
    torn: str = ""
    """Why the file cannot be read at all, for readers that pass such a commit: it is empty then."""

    @cached_property
    def adds(self) -> tuple[Add, ...]:
        """The files added, in the order of the commit."""
        return tuple(a for a in self.actions if isinstance(a, Add))

    @cached_property
    def removes(self) -> tuple[Remove, ...]:
        """The files removed."""
        return tuple(a for a in self.actions if isinstance(a, Remove))

    @cached_property
    def txns(self) -> dict[str, int]:
        """Application id → version."""
        return {a.app_id: a.version for a in self.actions if isinstance(a, Txn)}

    @cached_property
    def info(self) -> dict[str, Any]:
        """What the queue says about the commit; {} if another engine made it."""
        if self.foreign:
            return {}
        return next((dict(a.lakequeue) for a in self.actions if isinstance(a, CommitInfo)), {})

    @cached_property
    def timestamp_ms(self) -> int:
        """When it was made, by the clock of its maker; 0 if it does not say."""
        return next((a.timestamp for a in self.actions if isinstance(a, CommitInfo)), 0)

    @cached_property
    def metadata(self) -> Metadata | None:
        """The new metadata, if this commit changes it."""
        return next((a for a in self.actions if isinstance(a, Metadata)), None)

    @cached_property
    def protocol(self) -> Protocol | None:
        """The new protocol, if this commit changes it."""
        return next((a for a in self.actions if isinstance(a, Protocol)), None)

    @cached_property
    def foreign(self) -> bool:
        """Another engine made it: Spark, delta-rs, whoever the guard did not keep away.

        Also if it does not say who made it, which Delta allows: each commit of the queue says so.
        """
        infos = [a for a in self.actions if isinstance(a, CommitInfo)]
        return not infos or any(a.engine != OWN_ENGINE for a in infos)

    @cached_property
    def has_effect(self) -> bool:
        """Whether anything is another after it: not so at the start of a vacuum."""
        return bool(self.faults) or any(not isinstance(a, CommitInfo) for a in self.actions)

    @cached_property
    def told(self) -> str:
        """Who made it and by what, for people: `Apache-Spark/4.2.0 Delta-Lake/4.4.0: OPTIMIZE`."""
        infos = [a for a in self.actions if isinstance(a, CommitInfo)]
        return next((f"{a.engine or 'unknown engine'}: {a.operation}" for a in infos), "unknown")

    @property
    def configuration(self) -> Mapping[str, str] | None:
        """The new table properties, if this commit changes the metadata."""
        return self.metadata.configuration if self.metadata else None

    @cached_property
    def appends(self) -> bool:
        """New rows and nothing else: what a tail delivers. (A partial delete also adds files.)

        Never a foreign commit: what somebody inserts was not acknowledged, and not numbered.
        """
        return not self.removes and not self.foreign and any(a.data_change for a in self.adds)


def commit_path(table_path: str, version: int) -> str:
    """Where the commit file of a version is."""
    return f"{table_path}/_delta_log/{version:020d}.json"


def commit_version(name: str) -> Version | None:
    """The version of a commit file, or None if `name` is not one."""
    match = _COMMIT.match(name)
    return Version(int(match[1])) if match else None


def whole(given: object) -> int | None:
    """A number that somebody has written, if it is a whole one from 0 to 2^63 - 1."""
    return given if type(given) is int and 0 <= given < 1 << 63 else None


class CheckpointPart(NamedTuple):
    """What the name of a checkpoint file says."""

    version: Version
    part: int
    parts: int
    own_name: str = ""
    """Of a checkpoint that is one of several of its version."""


def checkpoint_part(name: str) -> CheckpointPart | None:
    """What the name of a checkpoint file says, or None if `name` is not one."""
    if match := _CHECKPOINT.match(name):
        return CheckpointPart(Version(int(match[1])), int(match[2] or 1), int(match[3] or 1))
    if match := _NAMED_CHECKPOINT.match(name):
        return CheckpointPart(Version(int(match[1])), 1, 1, match[2])
    return None


def has_table(names: Iterable[str]) -> bool:
    """Whether a `_delta_log` of these files stands for a table: first commit, or a checkpoint.

    Without either it is a table whose creation is under way, or a shard whose removal is.
    """
    return any(commit_version(n) == 0 or checkpoint_part(n) is not None for n in names)


def _to_json(action: Action) -> dict[str, Any]:
    match action:
        case Add():
            body: dict[str, Any] = {
                "path": quote(action.path, safe=_SAFE),
                "partitionValues": dict(action.partition_values),
                "size": action.size,
                "modificationTime": action.modification_time,
                "dataChange": action.data_change,
            }
            body |= {"stats": action.stats} if action.stats else {}
            return {"add": body | _vector(action.deletion_vector)}
        case Remove():
            body = {
                "path": quote(action.path, safe=_SAFE),
                "deletionTimestamp": action.deletion_timestamp,
                "dataChange": action.data_change,
            }
            if action.partition_values is not None:
                body |= {
                    "extendedFileMetadata": True,
                    "partitionValues": dict(action.partition_values),
                    "size": action.size,
                }
            return {"remove": body | _vector(action.deletion_vector)}
        case Txn():
            return {"txn": {"appId": action.app_id, "version": action.version}}
        case Metadata():
            return {
                "metaData": {
                    "id": action.id,
                    "name": action.name,
                    "format": {"provider": "parquet", "options": {}},
                    "schemaString": action.schema_string,
                    "partitionColumns": list(action.partition_columns),
                    "configuration": dict(action.configuration),
                    "createdTime": action.created_time,
                }
            }
        case Protocol():
            features = {
                "readerFeatures": action.reader_features,
                "writerFeatures": action.writer_features,
            }
            return {
                "protocol": {
                    "minReaderVersion": action.min_reader_version,
                    "minWriterVersion": action.min_writer_version,
                }
                | {name: list(some) for name, some in features.items() if some is not None}
            }
        case CommitInfo():
            return {
                "commitInfo": {
                    "timestamp": action.timestamp,
                    "operation": action.operation,
                    "operationParameters": {},
                    "engineInfo": action.engine,
                    "txnId": action.txn_id,
                    "lakequeue": dict(action.lakequeue),
                }
            }


def _vector(said: Mapping[str, Any] | None) -> dict[str, Any]:
    return {} if said is None else {"deletionVector": dict(said)}


def encode(actions: Iterable[Action]) -> bytes:
    """The content of a commit file; `commitInfo` first, as the other engines write it."""
    ordered = sorted(actions, key=lambda a: not isinstance(a, CommitInfo))
    return b"".join(orjson.dumps(_to_json(a), option=orjson.OPT_APPEND_NEWLINE) for a in ordered)
