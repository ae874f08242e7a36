"""Types of values, by their schemas: how they are named, and that no schema makes them many."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from queue_tables.querying.typed_views import spark_value, typed_views
from queue_tables.querying.value_types import (
    Items,
    Scalar,
    Struct,
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
from queue_tables.schema.topic_rules import Topic, checked_config
from queue_tables.schema.values.avro_schema import AvroSchema
from queue_tables.schema.values.protobuf_schema import ProtobufSchema, schema_of
from tests.unit.queue_tables.schema.values.protobufs import field, file, text_of

LEVELS = 25


def json_tree() -> Type:
    """Each definition has the next one twice."""
    defs: dict[str, Any] = {
        f"d{n}": {
            "type": "object",
            "properties": {name: {"$ref": f"#/$defs/d{n + 1}"} for name in "ab"},
        }
        for n in range(LEVELS)
    }
    defs[f"d{LEVELS}"] = {"type": "integer"}
    return of_json_schema(json.dumps({"$ref": "#/$defs/d0", "$defs": defs}))


def avro_tree() -> Type:
    return of_avro(doubling_avro(LEVELS))


def doubling_avro(levels: int) -> AvroSchema:
    schema: Any = "int"
    for n in range(levels):
        named = schema if isinstance(schema, str) else schema["name"]
        fields = [
            {"name": "a", "type": {"type": "array", "items": schema}},
            {"name": "b", "type": {"type": "array", "items": named}},
        ]
        schema = {"type": "record", "name": f"R{n}", "fields": fields}
    return AvroSchema(json.dumps(schema))


def protobuf_tree() -> Type:
    return of_protobuf(doubling_protobuf(LEVELS))


def doubling_protobuf(levels: int) -> ProtobufSchema:
    messages = {
        f"M{n}": [field(1, "a", f"M{n + 1}"), field(2, "b", f"M{n + 1}")] for n in range(levels)
    }
    messages[f"M{levels}"] = [field(1, "x", "bool")]
    return schema_of(text_of(file(messages), message="shop.M0"))


@pytest.mark.parametrize("tree", [json_tree, avro_tree, protobuf_tree])
def test_a_schema_that_doubles_at_each_level_does_not_make_millions_of_types(tree: Any) -> None:
    began = time.process_time()
    kind = tree()
    assert len(spark_type(kind)) < 200_000
    assert time.process_time() - began < 2


@pytest.mark.parametrize(("levels", "small"), [(4, True), (12, False), (25, False), (40, False)])
def test_spark_is_asked_for_schemas_alone_that_stay_small_when_they_are_written_out(
    levels: int, small: bool
) -> None:
    began = time.process_time()
    assert is_small_avro(doubling_avro(levels)) is small
    assert is_small_protobuf(doubling_protobuf(levels)) is small
    assert time.process_time() - began < 2


def test_a_type_within_itself_is_small() -> None:
    tree = {"type": "array", "items": "T"}
    fields = [{"name": "parts", "type": tree}, {"name": "or", "type": ["null", "int", "T"]}]
    schema = {"type": "record", "name": "T", "fields": fields}
    assert is_small_avro(AvroSchema(json.dumps(schema)))
    messages = {"M": [field(1, "a", "M"), field(2, "b", "M")]}
    assert is_small_protobuf(schema_of(text_of(file(messages), message="shop.M")))


def test_a_type_is_named_in_both_languages() -> None:
    text = {"type": "string"}
    of_x = {"type": "object", "properties": {"x": text}}
    kind = of_json_schema(
        json.dumps(
            {
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "on day": {"type": ["null", "string"]},
                    "more": {"type": "array", "items": of_x},
                    "of": {"type": "object", "additionalProperties": {"type": "boolean"}},
                    "any": {"anyOf": [text, {"type": "integer"}]},
                },
            }
        )
    )
    assert spark_type(kind) == (
        "STRUCT<`id`: BIGINT, `on day`: STRING, `more`: ARRAY<STRUCT<`x`: STRING>>, "
        "`of`: MAP<STRING, BOOLEAN>, `any`: STRING>"
    )
    assert duckdb_type(kind) == (
        'STRUCT("id" BIGINT, "on day" VARCHAR, "more" STRUCT("x" VARCHAR)[], '
        '"of" MAP(VARCHAR, BOOLEAN), "any" JSON)'
    )
    assert json.loads(duckdb_structure(kind)) == {
        "id": "BIGINT",
        "on day": "VARCHAR",
        "more": [{"x": "VARCHAR"}],
        "of": "MAP(VARCHAR, BOOLEAN)",
        "any": "JSON",
    }


@pytest.mark.parametrize("name", ["it's", 'a"b', "a`b", "a\\b", "a{b}", "a\nb", ""])
def test_a_name_that_could_end_a_name_or_a_literal_is_left_out(name: str) -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"}, "x": {"type": "string"}}}
    assert of_json_schema(json.dumps(schema)) == Struct((("x", Scalar.TEXT),))


def test_names_that_are_one_in_sql_are_json() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "A": {"type": "string"}}}
    assert of_json_schema(json.dumps(schema)) is Scalar.JSON


def test_what_refers_to_itself_or_elsewhere_is_json() -> None:
    tree = {"type": "array", "items": {"$ref": "#"}}
    kind = of_json_schema(json.dumps(tree))
    for _ in range(8):
        assert isinstance(kind, Items)
        kind = kind.of
    assert of_json_schema('{"$ref": "#/nowhere"}') is Scalar.JSON


def test_an_avro_schema_stands_in_sql_without_a_quote() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "doc": "it's a \\ and a ' OR '1'='1",
        "fields": [{"name": "id", "type": "string", "default": "'"}],
    }
    said = {"value_schema": json.dumps(schema), "value_schema_type": "avro"}
    topic = Topic(topic="t", topic_id="i", version=0, **checked_config("t", said))
    [view] = typed_views([topic])
    literal = spark_value(view).rpartition("from_avro(value, '")[2].partition("', map(")[0]
    assert "'" not in literal
    assert json.loads(literal.replace("\\\\", "\\")) == schema
