"""The guard of the queue's tables: a writer feature of its own, which no other engine knows. Pure.

Delta lets a table name the features that a writer must understand. A writer that does not know one
of them must refuse, and the ones of Spark and delta-rs do; readers go by the reader's features, of
which there are none. So with the feature `lakequeue` everybody reads the tables, and nobody but the
queue commits to them (docs/decisions/0029). Each commit of the queue puts the guard back where it
is missing: in tables of an earlier release, and where somebody took it off.

What another engine has switched on meanwhile is switched off by the same commit, as far as no file
depends on it. What files depend on is kept to, and `lakequeue repair` ends it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import orjson

from lakequeue.errors import SchemaDrift
from queue_tables.delta.actions import Action, Metadata, Protocol

FEATURE = "lakequeue"
"""Of writers: whoever does not know it does not commit."""
GUARDED = Protocol(1, 7, None, (FEATURE,))
"""The protocol of every table of the queue."""

FOREIGN_TXN = "foreign"
"""Of every table: the newest version that was another engine's, as far as commits have met it."""
REPAIRED_TXN = "repaired"
"""Of every table: the version up to which foreign commits are settled, by `lakequeue repair`."""
GUARDED_TXN = "guarded"
"""Of a table that was not made with the guard: where it came."""
OWN_TXNS = frozenset({FOREIGN_TXN, REPAIRED_TXN, GUARDED_TXN})
"""What these say is of this table's versions, and of no copy's."""

_VECTORS, _MAPPING = "deletionVectors", "columnMapping"
_CHECKPOINTS = "v2Checkpoint"
_IN_SCHEMA = {
    "timestampNtz": '"timestamp_ntz"',
    "typeWidening": '"delta.typeChanges"',
    "typeWidening-preview": '"delta.typeChanges"',
    "variantType": '"variant"',
    "variantType-preview": '"variant"',
    "variantShredding-preview": '"variant"',
}
"""Features that are needed while the schema has such a column -> how one sees that it has."""
_DROPPED = frozenset(
    {
        "allowColumnDefaults",
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "checkpointProtection",
        "clustering",
        "domainMetadata",
        "generatedColumns",
        "icebergCompatV1",
        "icebergCompatV2",
        "icebergCompatV3",
        "identityColumns",
        "inCommitTimestamp",
        "inCommitTimestamp-preview",
        "invariants",
        "materializePartitionColumns",
        "rowTracking",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
"""What another engine may have switched on, and no file of the table depends on."""
READABLE = frozenset({_VECTORS, _MAPPING, *_IN_SCHEMA, "v2Checkpoint", "vacuumProtocolCheck"})
"""Features of readers with which the queue's columns still are read as they are written."""
_FOREIGN_PROPERTIES = (
    "delta.appendOnly",
    "delta.checkpointPolicy",
    "delta.constraints.",
    "delta.coordinatedCommits",
    "delta.dropFeatureTruncateHistory",
    "delta.enableChangeDataFeed",
    "delta.enableDeletionVectors",
    "delta.enableIcebergCompat",
    "delta.enableInCommitTimestamps",
    "delta.enableRowTracking",
    "delta.enableTypeWidening",
    "delta.feature.",
    "delta.inCommitTimestamp",
    "delta.minReaderVersion",
    "delta.minWriterVersion",
    "delta.requireCheckpointProtectionBeforeVersion",
    "delta.rowTracking",
    # With it the next offset of an idle partition would be forgotten.
    "delta.setTransactionRetentionDuration",
    "delta.universalFormat.",
)
_MAPPING_PROPERTY = "delta.columnMapping."


def features(protocol: Protocol) -> set[str]:
    """Every feature that the protocol names, the reader's ones and the writer's."""
    named = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    # Before there were names, a number stood for them.
    return named | ({_MAPPING} if protocol.min_reader_version == 2 else set())


def is_guarded(protocol: Protocol) -> bool:
    """Whether other engines refuse to commit."""
    return FEATURE in (protocol.writer_features or ())


def unknown_features(protocol: Protocol) -> set[str]:
    """Those with which this release cannot commit."""
    return features(protocol) - _DROPPED - READABLE - {FEATURE}


def check_readable(table: str, protocol: Protocol) -> None:
    """Raise `SchemaDrift` if the table needs a feature with which its files read otherwise."""
    needed = set(protocol.reader_features or ()) - READABLE
    if needed or protocol.min_reader_version > 3:
        what = f"the features {', '.join(sorted(needed))}" if needed else "a later protocol"
        raise SchemaDrift(
            f"{table}: another engine switched on {what} (Delta reader version"
            f" {protocol.min_reader_version}), which this release cannot read",
            hint=_REMEDY,
        )


def reinstated(
    table: str,
    protocol: Protocol,
    metadata: Metadata,
    *,
    vectors: bool,
    checkpoints: bool = False,
) -> tuple[Action, ...]:
    """What a commit adds, so that the table is guarded and has no foreign feature; () if it is so.

    `vectors`: files may carry deletion vectors. `checkpoints`: one of version 2 stands for commits,
    and is not read without its feature. Raises `SchemaDrift` if the table needs what the
    queue's commits would break.
    """
    needed = _needed(protocol, metadata, vectors=vectors)
    if checkpoints and _CHECKPOINTS in features(protocol):
        needed.add(_CHECKPOINTS)
    unknown = unknown_features(protocol)
    if unknown or protocol.min_writer_version > GUARDED.min_writer_version:
        what = ", ".join(sorted(unknown)) or "a later protocol"
        raise SchemaDrift(
            f"{table}: another engine switched on {what}, with which this release cannot commit",
            hint=_REMEDY,
            stored="no",
        )
    wanted = GUARDED
    if needed:
        names = tuple(sorted(needed))
        wanted = Protocol(3, 7, names, tuple(sorted({FEATURE, *needed})))
    cleaned = without_foreign(metadata, keep_mapping=_MAPPING in needed)
    found: list[Action] = []
    if wanted != protocol:
        found.append(wanted)
    if cleaned != metadata:
        found.append(cleaned)
    return tuple(found)


_REMEDY = "say `lakequeue repair`, which tells what it would do; with --execute it does it"


def _needed(protocol: Protocol, metadata: Metadata, *, vectors: bool) -> set[str]:
    """Of the features, those that files or columns depend on."""
    there = features(protocol)
    needed = {
        name
        for name, sign in _IN_SCHEMA.items()
        if name in there and sign in metadata.schema_string
    }
    if vectors and _VECTORS in there:
        needed.add(_VECTORS)
    if _MAPPING in there and is_renamed(metadata.schema_string):
        needed.add(_MAPPING)
    return needed


def without_foreign(metadata: Metadata, *, keep_mapping: bool) -> Metadata:
    """The metadata without the properties of foreign features."""
    dropped = _FOREIGN_PROPERTIES if keep_mapping else (*_FOREIGN_PROPERTIES, _MAPPING_PROPERTY)
    kept = {k: v for k, v in metadata.configuration.items() if not k.startswith(dropped)}
    schema = metadata.schema_string
    if not keep_mapping and _MAPPING_PROPERTY in schema:
        schema = orjson.dumps(_unmapped(orjson.loads(schema))).decode()
    if kept == metadata.configuration and schema == metadata.schema_string:
        return metadata
    return replace(metadata, configuration=kept, schema_string=schema)


def is_renamed(schema_string: str) -> bool:
    """Whether a column has another name in the files than in the schema."""
    if _MAPPING_PROPERTY not in schema_string:
        return False
    return any(
        stored_name(field) != field["name"] for field in _fields(orjson.loads(schema_string))
    )


def stored_name(field: Mapping[str, Any]) -> str:
    """The name in data files of a field of Delta's schema JSON."""
    return str(field["metadata"].get(f"{_MAPPING_PROPERTY}physicalName", field["name"]))


def _fields(kind: Any) -> Iterator[Mapping[str, Any]]:
    """Every field of a Delta type, at whatever depth."""
    if not isinstance(kind, dict):
        return
    for field in kind.get("fields", ()):
        yield field
        yield from _fields(field["type"])
    for inner in ("elementType", "keyType", "valueType"):
        yield from _fields(kind.get(inner))


def _unmapped(schema: Any) -> Any:
    for field in _fields(schema):
        for key in [k for k in field["metadata"] if k.startswith(_MAPPING_PROPERTY)]:
            del field["metadata"][key]
    return schema
