"""What a table is declared with: its columns and their kinds, as Arrow and Spark know them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

Kind = Literal[
    "string", "int", "long", "bool", "binary", "timestamp", "headers", "holders", "ranges", "open",
    "dead",
]  # fmt: skip

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
HOLDERS = pa.list_(
    pa.struct(
        [
            pa.field("shard", pa.string()),
            pa.field("epoch", pa.int64()),
            pa.field("taken", pa.bool_()),
        ]
    )
)
RANGES = pa.list_(
    pa.struct([pa.field("from_offset", pa.int64()), pa.field("to_offset", pa.int64())])
)
_TIME = pa.timestamp("us", tz="UTC")
OPEN_RECORDS = pa.list_(
    pa.struct(
        [
            pa.field("offset", pa.int64()),
            pa.field("attempt", pa.int32()),
            pa.field("stage", pa.int32()),
            pa.field("until", _TIME),
            pa.field("first_at", _TIME),
            pa.field("key_hash", pa.int64()),
            pa.field("expires_at", _TIME),
            pa.field("member", pa.string()),
            pa.field("reason", pa.string()),
        ]
    )
)
DEAD_RECORDS = pa.list_(
    pa.struct(
        [
            pa.field("offset", pa.int64()),
            pa.field("attempts", pa.int32()),
            pa.field("reason", pa.string()),
            pa.field("dead_letter", pa.string()),
        ]
    )
)

_ARROW: dict[Kind, pa.DataType] = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "bool": pa.bool_(),
    "binary": pa.binary(),
    "timestamp": _TIME,
    "headers": HEADERS,
    "holders": HOLDERS,
    "ranges": RANGES,
    "open": OPEN_RECORDS,
    "dead": DEAD_RECORDS,
}
_SPARK: dict[Kind, str] = {
    "string": "STRING",
    "int": "INT",
    "long": "BIGINT",
    "bool": "BOOLEAN",
    "binary": "BINARY",
    "timestamp": "TIMESTAMP",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    "holders": "ARRAY<STRUCT<shard: STRING, epoch: BIGINT, taken: BOOLEAN>>",
    "ranges": "ARRAY<STRUCT<from_offset: BIGINT, to_offset: BIGINT>>",
    "open": (
        "ARRAY<STRUCT<offset: BIGINT, attempt: INT, stage: INT, until: TIMESTAMP, "
        "first_at: TIMESTAMP, key_hash: BIGINT, expires_at: TIMESTAMP, member: STRING, "
        "reason: STRING>>"
    ),
    "dead": "ARRAY<STRUCT<offset: BIGINT, attempts: INT, reason: STRING, dead_letter: STRING>>",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: name, kind, and what it means."""

    name: str
    kind: Kind
    doc: str
    required: bool = False
    """A row in which it is null is no sound row."""
    least: int | None = None
    """Of a number; of text, its characters."""
    most: int | None = None
    shape: Literal["consumed"] | None = None
    """What its text must be: see `queue_tables.schema.record_rules`."""

    @property
    def spark_type(self) -> str:
        """Its type in Spark SQL."""
        return _SPARK[self.kind]

    @property
    def spark_ddl(self) -> str:
        """The column as Spark DDL."""
        return f"`{self.name}` {self.spark_type}"


@dataclass(frozen=True, slots=True)
class Table:
    """A table, or a family of shards of one shape (`inbox`, `journal`)."""

    name: str
    doc: str
    committed_by: str
    columns: tuple[Column, ...]
    partition_by: tuple[str, ...] = ()
    sharded: bool = False
    stats: tuple[str, ...] = ()
    """Columns whose minimum and maximum stand in each file's statistics."""
    later: frozenset[str] = frozenset()
    """Columns that roots of an earlier format lack. Files have them all the same."""
    properties: tuple[tuple[str, str], ...] = ()
    """Delta table properties at creation."""
    when_needed: bool = False
    """It is created with its first row, not with the root."""
    arrow: pa.Schema = field(init=False, repr=False, compare=False)
    """The Arrow schema, in column order, partition columns included."""

    def __post_init__(self) -> None:
        fields = [pa.field(column.name, _ARROW[column.kind]) for column in self.columns]
        object.__setattr__(self, "arrow", pa.schema(fields))

    @property
    def meanings(self) -> dict[str, str]:
        """What each column means, by its name."""
        return {column.name: column.doc for column in self.columns}

    @property
    def file_arrow(self) -> pa.Schema:
        """The Arrow schema of a data file: without the partition columns."""
        return pa.schema([f for f in self.arrow if f.name not in self.partition_by])

    @property
    def spark_ddl(self) -> str:
        """The Spark schema as DDL, for `StructType.fromDDL` and `CREATE TABLE`."""
        return ", ".join(column.spark_ddl for column in self.columns)
