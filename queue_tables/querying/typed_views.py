"""Views with the values of one topic as typed columns, for Spark and DuckDB. Pure.

    SELECT value.total FROM values_orders WHERE value.paid

A view has the type that the topic's present schema gives. A value that is not of the schema is null
in it: the topic had no schema when it came, or only warned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import md5
from typing import Final, NamedTuple

import orjson

from lakequeue.wire.calls.topics import VALUE_FAULT_HEADER
from queue_tables.querying.value_types import (
    Scalar,
    Type,
    duckdb_structure,
    duckdb_type,
    is_small_avro,
    is_small_protobuf,
    of_avro,
    of_json_schema,
    of_protobuf,
    spark_type,
)
from queue_tables.schema.topic_rules import Topic, schemas_of
from queue_tables.schema.values.avro_schema import SINGLE_OBJECT, AvroSchema
from queue_tables.schema.values.protobuf_schema import parts_of, schema_of
from queue_tables.schema.values.rules import texts_of

PREFIX: Final = "values_"
VALUE: Final = "@value@"
"""In a rendered template. Schemas stand in the expression, and no rule of templates holds there."""
_CAST: Final = {
    Scalar.BOOLEAN: "BOOLEAN",
    Scalar.LONG: "BIGINT",
    Scalar.DOUBLE: "DOUBLE",
}


class TypedView(NamedTuple):
    """A view of one topic."""

    name: str
    topic: Topic
    kind: str
    """json, avro or protobuf."""
    type: Type


def typed_views(topics: Iterable[Topic]) -> list[TypedView]:
    """One for each topic that has a schema."""
    named = sorted((t for t in topics if t.value_schema is not None), key=lambda t: t.topic)
    names: dict[str, int] = {}
    for topic in named:
        names[_plain(topic.topic)] = names.get(_plain(topic.topic), 0) + 1
    return [
        TypedView(_name(topic.topic, names), topic, topic.value_schema_type or "json", _type(topic))
        for topic in named
    ]


def _plain(topic: str) -> str:
    """As views may be called: names of topics have dots and dashes, and case counts in them."""
    return PREFIX + re.sub(r"\W", "_", topic, flags=re.ASCII).lower()


def _name(topic: str, names: dict[str, int]) -> str:
    plain = _plain(topic)
    if names[plain] == 1:
        return plain
    return f"{plain}_{md5(topic.encode(), usedforsecurity=False).hexdigest()[:8]}"


def _type(topic: Topic) -> Type:
    text = topic.value_schema or ""
    if topic.value_schema_type == "avro":
        return of_avro(AvroSchema(text))
    if topic.value_schema_type == "protobuf":
        return of_protobuf(schema_of(text))
    return of_json_schema(text)


def template_of(view: TypedView) -> str:
    """What `views.render` makes the view of. `VALUE` then stands for the expression of `value`."""
    return (
        'SELECT "partition", "offset", key, key_text, '
        f"CASE WHEN {{header:{VALUE_FAULT_HEADER}}} IS NULL THEN {VALUE} END AS value, "
        'headers, "timestamp", message_id, ordered_at, deliver_at, expires_at, '
        "value AS value_bytes, value_text "
        f"FROM {{view:records}} WHERE topic = '{view.topic.topic}'"
    )


# -- expressions --------------------------------------------------------------------------------


def is_for_spark(view: TypedView) -> bool:
    """Whether Spark can make a column of its type: a schema of a few lines may have millions of
    parts when each is written out wherever it is used."""
    text = view.topic.value_schema or ""
    if view.kind == "avro":
        return is_small_avro(AvroSchema(text))
    return view.kind == "json" or is_small_protobuf(schema_of(text))


def spark_value(view: TypedView) -> str:
    """The value of a row of `records`, in Spark. A field of a type within itself is left out."""
    if view.kind == "json":
        return _of_text(
            view.type,
            "CAST(value_json AS STRING)",
            lambda kind: f"from_json(value_text, '{spark_type(kind)}')",
        )
    if view.kind == "protobuf":
        text = view.topic.value_schema or ""
        name, files = schema_of(text).root.name, parts_of(text)[1]
        options = "map('mode', 'PERMISSIVE', 'recursive.fields.max.depth', '1')"
        return f"from_protobuf(value, '{name}', X'{files.hex()}', {options})"
    return "".join(_avro_branches(view.topic))


def duckdb_value(view: TypedView) -> str:
    """The same in DuckDB. Of Avro and Protobuf, a function of the view's name decodes values."""
    if view.kind != "json":
        return f"{duckdb_function(view)}(value)"
    return _of_text(
        view.type,
        "value_json ->> '$'",
        lambda kind: f"json_transform(TRY_CAST(value_text AS JSON), '{duckdb_structure(kind)}')",
    )


def duckdb_function(view: TypedView) -> str:
    """The name of the function that decodes the values of a view."""
    return f"{view.name}_of"


def duckdb_signature(view: TypedView) -> str:
    """What the function of the view returns."""
    return duckdb_type(view.type)


def _of_text(kind: Type, text: str, parsed: Callable[[Type], str]) -> str:
    if not isinstance(kind, Scalar):
        return parsed(kind)
    if kind is Scalar.TEXT:
        return f"CASE WHEN value_json IS NULL THEN value_text ELSE {text} END"
    return f"TRY_CAST(value_text AS {_CAST[kind]})" if kind in _CAST else "value_text"


def _avro_branches(topic: Topic) -> Iterator[str]:
    present = _literal(topic.value_schema or "")
    options = "'mode', 'PERMISSIVE', 'recursiveFieldMaxDepth', '1'"
    yield "CASE"
    for text in texts_of("avro", schemas_of(topic)):
        mark = (SINGLE_OBJECT + AvroSchema(text).fingerprint).hex()
        yield (
            f" WHEN substring(value, 1, 10) = X'{mark}' THEN from_avro(substring(value, 11), "
            f"'{_literal(text)}', map({options}, 'avroSchema', '{present}'))"
        )
    yield f" ELSE from_avro(value, '{present}', map({options})) END"


def _literal(schema: str) -> str:
    """A schema as a literal of SQL: no quote stands in it."""
    text = orjson.dumps(orjson.loads(schema)).decode()
    return text.replace("'", "\\u0027").replace("\\", "\\\\")
