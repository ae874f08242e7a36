"""Whether a topic's next schema in Avro may follow: the rules of schema resolution."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from lakequeue.errors import InvalidRequest
from queue_tables.schema.topic_rules import Topic, altered, checked_config, schemas_of
from queue_tables.schema.values.avro_compatibility import unreadable
from queue_tables.schema.values.avro_schema import AvroSchema


def record(*fields: Any, name: str = "Order") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, kind: Any = "long", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


ID = field("id")
OLD = record(ID)
MORE = record(ID, field("note", "string", default=""))
STRICT = record(ID, field("note", "string"))
LIST = record(ID, field("next", ["null", "Order"]))


def text_of(schema: Any) -> str:
    return orjson.dumps(schema).decode()


def schema_of(schema: Any) -> AvroSchema:
    return AvroSchema(text_of(schema))


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        (OLD, OLD),
        (MORE, OLD),
        (OLD, STRICT),
        (LIST, LIST),
        ("double", "int"),
        ("bytes", "string"),
        (["null", "long"], "int"),
        ("long", ["int", "long"]),
        (enum("A", "B"), enum("A")),
        (enum("A", default="A"), enum("A", "B")),
        ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}),
        (record(field("key", aliases=["id"])), OLD),
        (record(ID, name="New") | {"aliases": ["Order"]}, OLD),
        (record(ID, name="shop.Order"), OLD),
        ({"type": "long", "logicalType": "timestamp-micros"}, "long"),
    ],
)
def test_it_can_be_read(reader: Any, writer: Any) -> None:
    assert unreadable(schema_of(reader), schema_of(writer)) is None


@pytest.mark.parametrize(
    ("reader", "writer", "why"),
    [
        (STRICT, OLD, "has no default (at note)"),
        ("int", "long", "long cannot be read as int"),
        ("int", ["null", "int"], "null cannot be read as int"),
        (["null", "string"], "int", "no branch of the union reads int"),
        (enum("A"), enum("A", "B"), "the symbol B is gone"),
        (record(ID, name="Other"), OLD, "record Order cannot be read as record Other"),
        (record(field("id", "string")), OLD, "long cannot be read as string (at id)"),
        (
            {"type": "fixed", "name": "F", "size": 4},
            {"type": "fixed", "name": "F", "size": 8},
            "8 bytes, not 4",
        ),
        (record(ID, field("next", ["string", "Order"])), LIST, "no branch"),
    ],
)
def test_it_cannot_be_read(reader: Any, writer: Any, why: str) -> None:
    assert why in (unreadable(schema_of(reader), schema_of(writer)) or "")


def topic(*schemas: Any, rule: str | None = None) -> Topic:
    """A topic that has had these schemas."""
    said = {"value_schema": text_of(schemas[0]), "value_schema_type": "avro"}
    found = Topic(topic="t", topic_id="i", version=0, **checked_config("t", said))
    for schema in schemas[1:]:
        full = altered(found, {"value_schema": text_of(schema)}, {}, 0)
        assert full is not None
        earlier = schemas_of(found)
        found = Topic(topic="t", topic_id="i", version=0, earlier_schemas=earlier, **full)
    if rule is not None:
        full = altered(found, {"value_compatibility": rule}, {}, 0)
        assert full is not None
        earlier = found.earlier_schemas
        found = Topic(topic="t", topic_id="i", version=0, earlier_schemas=earlier, **full)
    return found


@pytest.mark.parametrize(
    ("rule", "had", "new", "fault"),
    [
        (None, [OLD], "string", None),
        ("none", [OLD], "string", None),
        ("backward", [OLD], MORE, None),
        ("backward", [OLD], STRICT, "not backward compatible with version 1"),
        ("forward", [OLD], STRICT, None),
        ("forward", [STRICT], OLD, "not forward compatible with version 1"),
        ("full", [OLD], MORE, None),
        ("full", [OLD], STRICT, "not backward compatible with version 1"),
        ("backward", ["string", OLD], MORE, None),
        ("backward_transitive", ["string", OLD], MORE, "compatible with version 1"),
        ("forward_transitive", ["string", OLD], MORE, "compatible with version 1"),
        ("full_transitive", [OLD, MORE], record(ID, field("x", default=1)), None),
    ],
)
def test_a_change_is_judged_by_the_rule_of_the_topic(
    rule: str | None, had: list[Any], new: Any, fault: str | None
) -> None:
    found = topic(*had, rule=rule)
    if fault is None:
        assert altered(found, {"value_schema": text_of(new)}, {}, 0) is not None
        return
    with pytest.raises(InvalidRequest, match=fault) as refused:
        altered(found, {"value_schema": text_of(new)}, {}, 0)
    assert refused.value.extra["field"] == "value_schema"


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"value_schema_type": "avro"}, "value_schema_type"),
        ({"value_policy": "warn"}, "value_policy"),
        ({"value_schema": "{}", "value_compatibility": "full"}, "value_compatibility"),
        ({"value_schema": '"int"', "value_schema_type": "xml"}, "value_schema_type"),
        ({"value_schema": '"int"', "value_policy": "drop"}, "value_policy"),
    ],
)
def test_what_does_not_go_together_is_refused(said: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        checked_config("t", said)
    assert refused.value.extra["field"] == field
