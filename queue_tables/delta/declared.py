"""The schema of a table as Delta's JSON, and whether a table has the declared one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import orjson
import pyarrow as pa

from lakequeue.errors import SchemaDrift
from queue_tables.delta.columns import Column, Table
from queue_tables.delta.guard import stored_name

if TYPE_CHECKING:
    from queue_tables.delta.actions import Metadata


def delta_schema(schema: pa.Schema, meanings: Mapping[str, str] | None = None) -> str:
    """Delta's JSON of an Arrow schema, with the `meanings` of columns as their comments.

    Every column is nullable, as in every table of the queue.
    """
    return orjson.dumps(_delta_struct(schema, meanings or {})).decode()


def _delta_struct(fields: Iterable[pa.Field], comments: Mapping[str, str]) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [
            {
                "name": f.name,
                "type": _delta_type(f.type),
                "nullable": True,
                "metadata": {"comment": comments[f.name]} if f.name in comments else {},
            }
            for f in fields
        ],
    }


def _delta_type(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        element = _delta_type(kind.value_type)
        return {"type": "array", "elementType": element, "containsNull": True}
    if pa.types.is_struct(kind):
        return _delta_struct(kind, {})
    return _DELTA_TYPES[kind]


_DELTA_TYPES = {
    pa.string(): "string",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.bool_(): "boolean",
    pa.binary(): "binary",
    pa.timestamp("us", tz="UTC"): "timestamp",
}


class Opened(Protocol):
    """A table whose newest metadata has been read."""

    @property
    def path(self) -> str:
        """Its folder under the root."""

    @property
    def metadata(self) -> Metadata:
        """Its newest metadata."""


def verify_schema(log: Opened, table: Table) -> None:
    """Raise `SchemaDrift` unless the opened `log` has the declared columns.

    Others may stand beside them, added by a statement: the queue neither reads nor writes those.
    """
    found = _columns(log.metadata.schema_string)
    declared = _columns(delta_schema(table.arrow))
    differing = sorted(
        name
        for name in declared
        if found.get(name) != declared[name] and not (name in table.later and name not in found)
    )
    partitions = log.metadata.partition_columns
    if differing or partitions != table.partition_by:
        what = f"columns {', '.join(differing)}" if differing else f"partitioning {partitions}"
        raise SchemaDrift(
            f"{log.path}: {what} differ from what this release declares",
            hint="run the release that wrote this root; if a statement changed the table, say"
            " `lakequeue repair`, which tells what it would do",
        )


def lacking_columns(found: Metadata, table: Table) -> tuple[Column, ...]:
    """The columns that a table of a root of an earlier format does not have yet. Pure."""
    there = _columns(found.schema_string)
    return tuple(c for c in table.columns if c.name in table.later and c.name not in there)


def with_later_columns(found: Metadata, table: Table) -> Metadata | None:
    """The metadata of a table that an earlier release made, with the columns it lacks; or None.

    Pure. Only `lakequeue upgrade` commits it: 0.1.0 refuses a table with a column more.
    """
    lacking = {column.name for column in lacking_columns(found, table)}
    if not lacking:
        return None
    schema = orjson.loads(found.schema_string)
    declared = orjson.loads(delta_schema(table.arrow, table.meanings))["fields"]
    schema["fields"] += [field for field in declared if field["name"] in lacking]
    return replace(found, schema_string=orjson.dumps(schema).decode())


def _columns(schema_string: str) -> dict[str, Any]:
    """Name in the files → type, without comments and what else does not change what is stored."""
    return dict(_shape(orjson.loads(schema_string))["fields"])


def _shape(kind: Any) -> Any:
    if not isinstance(kind, dict):
        return kind
    if "fields" in kind:
        fields = [(stored_name(f), _shape(f["type"])) for f in kind["fields"]]
        return {"type": "struct", "fields": fields}
    return {name: _shape(inner) for name, inner in kind.items() if name != "containsNull"}
