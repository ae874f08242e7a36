"""Types of columns that hold the values of a topic, from its schema, for Spark and DuckDB. Pure.

What a schema leaves open (a union of several types, an object of any members, a type within itself)
is a column of JSON text. Whoever makes a schema chooses the names of fields: those that could end a
literal or a quoted name of SQL are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import orjson

from queue_tables.schema.values.avro_cost import Node
from queue_tables.schema.values.avro_schema import AvroSchema
from queue_tables.schema.values.protobuf_schema import Field, Message, ProtobufSchema

_SAFE_NAME: Final = re.compile(r"[^\s\"'`\\{}\x00-\x1f\x7f][^\"'`\\{}\x00-\x1f\x7f]*")
_MOST_DEPTH: Final = 32
_MOST_FIELDS: Final = 1_000
_MOST_TYPES: Final = 2_000
"""Of a value, all counted: a definition that is used twice at each of 25 levels is 30,000,000."""


class Scalar(Enum):
    """Its name in Spark, and in DuckDB."""

    BOOLEAN = "BOOLEAN", "BOOLEAN"
    INT = "INT", "INTEGER"
    LONG = "BIGINT", "BIGINT"
    UNSIGNED = "DECIMAL(20,0)", "UBIGINT"
    FLOAT = "FLOAT", "FLOAT"
    DOUBLE = "DOUBLE", "DOUBLE"
    TEXT = "STRING", "VARCHAR"
    BYTES = "BINARY", "BLOB"
    JSON = "STRING ", "JSON"
    """What the schema leaves open."""


class _Room:
    """How many types a value may still have."""

    def __init__(self) -> None:
        self._left = _MOST_TYPES

    def is_full(self) -> bool:
        """Whether this is one too many."""
        self._left -= 1
        return self._left < 0


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    of: Type


@dataclass(frozen=True, slots=True)
class Entries:
    """A map from texts."""

    of: Scalar


@dataclass(frozen=True, slots=True)
class Struct:
    """Named fields."""

    fields: tuple[tuple[str, Type], ...]


Type = Scalar | Items | Entries | Struct


def spark_type(one: Type) -> str:
    """As DDL."""
    match one:
        case Scalar():
            return one.value[0].strip()
        case Items():
            return f"ARRAY<{spark_type(one.of)}>"
        case Entries():
            return f"MAP<STRING, {spark_type(one.of)}>"
    fields = ", ".join(f"`{name}`: {spark_type(kind)}" for name, kind in one.fields)
    return f"STRUCT<{fields}>"


def duckdb_type(one: Type) -> str:
    """As SQL."""
    match one:
        case Scalar():
            return one.value[1]
        case Items():
            return f"{duckdb_type(one.of)}[]"
        case Entries():
            return f"MAP(VARCHAR, {duckdb_type(one.of)})"
    fields = ", ".join(f'"{name}" {duckdb_type(kind)}' for name, kind in one.fields)
    return f"STRUCT({fields})"


def duckdb_structure(one: Type) -> str:
    """As `json_transform` takes it, for a literal of SQL."""
    return orjson.dumps(_structure(one)).decode()


def _structure(one: Type) -> Any:
    match one:
        case Items():
            return [_structure(one.of)]
        case Struct():
            return {name: _structure(kind) for name, kind in one.fields}
    return duckdb_type(one)


def struct_of(fields: Mapping[str, Type]) -> Type:
    """A struct of the fields that SQL can name; JSON if there are none, or two of one name."""
    named = {name: kind for name, kind in fields.items() if _SAFE_NAME.fullmatch(name)}
    lower = {name.lower() for name in named}
    if not named or len(lower) < len(named) or len(named) > _MOST_FIELDS:
        return Scalar.JSON
    return Struct(tuple(named.items()))


def entries_of(kind: Type) -> Type:
    """A map of scalars; of others, JSON."""
    return Entries(kind) if isinstance(kind, Scalar) else Scalar.JSON


# -- JSON Schema --------------------------------------------------------------------------------

_OF_JSON: Final = {
    "boolean": Scalar.BOOLEAN,
    "integer": Scalar.LONG,
    "number": Scalar.DOUBLE,
    "string": Scalar.TEXT,
}


def of_json_schema(text: str) -> Type:
    """Of a JSON Schema: what it says of types, at each place."""
    root = orjson.loads(text)
    return _of_json(root, root, _MOST_DEPTH, _Room())


def _of_json(schema: Any, root: Any, depth: int, room: _Room) -> Type:
    if not isinstance(schema, dict) or depth == 0 or room.is_full():
        return Scalar.JSON
    if isinstance(schema.get("$ref"), str):
        return _of_json(_referred(schema["$ref"], root), root, depth - 1, room)
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    named = [kind for kind in kinds if kind != "null"]
    if len(named) != 1:
        return Scalar.JSON
    kind = named[0]
    if kind == "array":
        items = schema.get("items")
        return (
            Items(_of_json(items, root, depth - 1, room))
            if isinstance(items, dict)
            else Scalar.JSON
        )
    if kind != "object":
        return _OF_JSON.get(kind, Scalar.JSON)
    properties, more = schema.get("properties"), schema.get("additionalProperties")
    if isinstance(properties, dict) and properties:
        return struct_of(
            {name: _of_json(one, root, depth - 1, room) for name, one in properties.items()}
        )
    return (
        entries_of(_of_json(more, root, depth - 1, room)) if isinstance(more, dict) else Scalar.JSON
    )


def _referred(uri: str, root: Any) -> Any:
    """What stands there in the same document; None for anything else."""
    if uri != "#" and not uri.startswith("#/"):
        return None
    found = root
    for part in uri.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found


# -- Avro ---------------------------------------------------------------------------------------

_OF_AVRO: Final = {
    "boolean": Scalar.BOOLEAN,
    "int": Scalar.INT,
    "long": Scalar.LONG,
    "float": Scalar.FLOAT,
    "double": Scalar.DOUBLE,
    "string": Scalar.TEXT,
    "enum": Scalar.TEXT,
    "bytes": Scalar.BYTES,
    "fixed": Scalar.BYTES,
}


def of_avro(schema: AvroSchema) -> Type:
    """Of an Avro schema; logical types are not looked at."""
    return _of_avro(schema, schema.root, frozenset(), _MOST_DEPTH, _Room())


def _of_avro(
    schema: AvroSchema, node: Node, within: frozenset[str], depth: int, room: _Room
) -> Type:
    if depth == 0 or room.is_full() or (node.kind == "ref" and node.name in within):
        return Scalar.JSON
    if node.kind == "ref":
        within |= {node.name}
        node = schema.resolved(node)
    if node.kind == "union":
        branches = [part for _, part in node.parts if part.kind != "null"]
        if len(branches) != 1:
            return Scalar.JSON
        return _of_avro(schema, branches[0], within, depth, room)
    if node.kind == "record":
        parts = {name: _of_avro(schema, part, within, depth - 1, room) for name, part in node.parts}
        return struct_of(parts)
    if node.kind == "array":
        return Items(_of_avro(schema, node.parts[0][1], within, depth - 1, room))
    if node.kind == "map":
        return entries_of(_of_avro(schema, node.parts[0][1], within, depth - 1, room))
    return _OF_AVRO.get(node.kind, Scalar.JSON)


def is_small_avro(schema: AvroSchema) -> bool:
    """Whether it has no more than `_MOST_TYPES` parts, each written out wherever it is used.

    Spark makes a column of all of them, also of the branches of unions.
    """
    return _is_small(schema, schema.root, frozenset(), _MOST_DEPTH, _Room())


def _is_small(
    schema: AvroSchema, node: Node, within: frozenset[str], depth: int, room: _Room
) -> bool:
    if node.kind == "ref":
        if node.name in within:
            return True
        within |= {node.name}
        node = schema.resolved(node)
    if depth == 0 or room.is_full():
        return False
    return all(_is_small(schema, part, within, depth - 1, room) for _, part in node.parts)


# -- Protobuf -----------------------------------------------------------------------------------

_OF_PROTOBUF: Final = {
    "bool": Scalar.BOOLEAN,
    **dict.fromkeys(("int32", "sint32", "sfixed32"), Scalar.INT),
    **dict.fromkeys(("uint32", "fixed32", "int64", "sint64", "sfixed64"), Scalar.LONG),
    **dict.fromkeys(("uint64", "fixed64"), Scalar.UNSIGNED),
    "float": Scalar.FLOAT,
    "double": Scalar.DOUBLE,
    "string": Scalar.TEXT,
    "enum": Scalar.TEXT,
    "bytes": Scalar.BYTES,
}


def of_protobuf(schema: ProtobufSchema) -> Type:
    """Of a message."""
    return _of_message(schema, schema.root, frozenset(), _MOST_DEPTH, _Room())


def _of_message(
    schema: ProtobufSchema, message: Message, within: frozenset[str], depth: int, room: _Room
) -> Type:
    if depth == 0 or room.is_full() or message.name in within:
        return Scalar.JSON
    within |= {message.name}
    return struct_of(
        {
            one.name: _of_field(schema, one, within, depth - 1, room)
            for one in message.fields.values()
        }
    )


def _of_field(
    schema: ProtobufSchema, field: Field, within: frozenset[str], depth: int, room: _Room
) -> Type:
    if field.kind not in {"message", "group"}:
        kind: Type = _OF_PROTOBUF[field.kind]
        return Items(kind) if field.repeated else kind
    message = schema.messages[field.of]
    if message.is_entry:
        value = _of_field(schema, message.fields[2], within, depth, room)
        text = message.fields[1].kind == "string"
        return entries_of(value) if text else Scalar.JSON
    kind = _of_message(schema, message, within, depth, room)
    return Items(kind) if field.repeated else kind


def is_small_protobuf(schema: ProtobufSchema) -> bool:
    """The same of a message."""
    return _is_small_message(schema, schema.root, frozenset(), _MOST_DEPTH, _Room())


def _is_small_message(
    schema: ProtobufSchema, message: Message, within: frozenset[str], depth: int, room: _Room
) -> bool:
    if message.name in within:
        return True
    if depth == 0:
        return False
    within |= {message.name}
    for one in message.fields.values():
        of = schema.messages.get(one.of)
        if room.is_full() or (
            of is not None and not _is_small_message(schema, of, within, depth - 1, room)
        ):
            return False
    return True
