"""Values in Avro and Protobuf for DuckDB, which reads neither: bytes in, Arrow out. Pure.

A value is judged first, as the gate does: what is no value is null, and no decoder sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson
import pyarrow as pa

from lakequeue.avro import Avro
from lakequeue.errors import InvalidRequest
from queue_tables.querying.typed_views import TypedView
from queue_tables.querying.value_types import Entries, Items, Scalar, Struct, Type
from queue_tables.schema.topic_rules import Topic
from queue_tables.schema.values.avro_schema import AvroValues
from queue_tables.schema.values.protobuf_schema import (
    Field,
    Message,
    ProtobufSchema,
    class_of,
    schema_of,
)
from queue_tables.schema.values.protobuf_values import ProtobufValues
from queue_tables.schema.values.rules import texts_of

_ARROW: Final = {
    Scalar.BOOLEAN: pa.bool_(),
    Scalar.INT: pa.int32(),
    Scalar.LONG: pa.int64(),
    Scalar.UNSIGNED: pa.uint64(),
    Scalar.FLOAT: pa.float32(),
    Scalar.DOUBLE: pa.float64(),
    Scalar.TEXT: pa.string(),
    Scalar.BYTES: pa.binary(),
    Scalar.JSON: pa.string(),
}


def column_of(view: TypedView) -> Callable[[pa.ChunkedArray], pa.Array]:
    """What makes the column `value` of a view out of the bytes."""
    decode = _avro(view.topic) if view.kind == "avro" else _protobuf(view.topic)
    kind = arrow_type(view.type)

    def column(data: pa.ChunkedArray) -> pa.Array:
        found = [None if one is None else decode(one) for one in data.to_pylist()]
        return pa.array([_as(one, view.type) for one in found], kind)

    return column


def arrow_type(one: Type) -> pa.DataType:
    """As Arrow has it."""
    match one:
        case Scalar():
            return _ARROW[one]
        case Items():
            return pa.list_(arrow_type(one.of))
        case Entries():
            return pa.map_(pa.string(), arrow_type(one.of))
    return pa.struct([(name, arrow_type(kind)) for name, kind in one.fields])


def _as(value: Any, kind: Type) -> Any:
    if value is None:
        return None
    match kind:
        case Scalar.JSON:
            return orjson.dumps(value, default=_text, option=orjson.OPT_NON_STR_KEYS).decode()
        case Items():
            return [_as(one, kind.of) for one in value]
        case Entries():
            return [(name, _as(one, kind.of)) for name, one in value.items()]
        case Struct():
            return {name: _as(value[name], one) for name, one in kind.fields}
    return value


def _text(value: Any) -> str:
    """Bytes within JSON, as Avro's JSON has them: a character each."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


# -- Avro ---------------------------------------------------------------------------------------


def _avro(topic: Topic) -> Callable[[bytes], Any]:
    present = topic.value_schema or ""
    earlier = texts_of("avro", topic.earlier_schemas)
    judge = AvroValues(present, earlier)
    reader = Avro(_plain_text(present), map(_plain_text, earlier))

    def decode(data: bytes) -> Any:
        if judge.fault(data) is not None:
            return None
        try:
            return reader.decode(data)
        except InvalidRequest:  # of an earlier schema that the present one cannot read
            return None

    return decode


def _plain_text(schema: str) -> str:
    """Without logical types: numbers stay numbers."""
    return orjson.dumps(_plain(orjson.loads(schema))).decode()


def _plain(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: part if name == "default" else _plain(part)
        for name, part in schema.items()
        if name != "logicalType"
    }


# -- Protobuf -----------------------------------------------------------------------------------


def _protobuf(topic: Topic) -> Callable[[bytes], Any]:
    text = topic.value_schema or ""
    judge, schema, message = ProtobufValues(text), schema_of(text), class_of(text)

    def decode(data: bytes) -> Any:
        if judge.fault(data) is not None:
            return None
        return _fields(message.FromString(data), schema.root, schema)

    return decode


def _fields(value: Any, message: Message, schema: ProtobufSchema) -> dict[str, Any]:
    return {one.name: _field(value, one, schema) for one in message.fields.values()}


def _field(value: Any, field: Field, schema: ProtobufSchema) -> Any:
    if field.repeated:
        return _many(getattr(value, field.name), field, schema)
    if field.has_presence and not value.HasField(field.name):
        return None
    return _one(getattr(value, field.name), field, schema)


def _many(values: Any, field: Field, schema: ProtobufSchema) -> Any:
    message = schema.messages.get(field.of)
    if message is None or not message.is_entry:
        return [_one(one, field, schema) for one in values]
    inner = message.fields[2]
    pairs: Mapping[Any, Any] = {key: _one(values[key], inner, schema) for key in values}
    return pairs


def _one(value: Any, field: Field, schema: ProtobufSchema) -> Any:
    if field.kind in {"message", "group"}:
        return _fields(value, schema.messages[field.of], schema)
    if field.kind == "enum":
        return {number: name for name, number in field.symbols}.get(value, str(value))
    return value
