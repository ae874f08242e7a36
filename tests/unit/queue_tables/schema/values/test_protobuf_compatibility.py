"""Which Protobuf message can be read with which, and what a topic says of the next schema."""

from __future__ import annotations

from typing import Any

import pytest

from lakequeue.errors import InvalidRequest
from queue_tables.schema.topic_rules import Topic, altered, checked_config, schemas_of
from queue_tables.schema.values.protobuf_compatibility import unreadable
from queue_tables.schema.values.protobuf_schema import schema_of
from tests.unit.queue_tables.schema.values.protobufs import field, file, text_of

ID = field(1, "id", "int64")


def order(*fields: Any, syntax: str = "proto3", **more: Any) -> str:
    return text_of(file({"Order": list(fields)}, syntax=syntax, **more))


def state(syntax: str, **symbols: int) -> str:
    return order(field(1, "s", "enum State"), syntax=syntax, enums={"State": symbols})


OLD = order(ID)
MORE = order(ID, field(2, "note", "string"))
OTHER = order(field(1, "id", "string"))
STRICT = order(ID, field(2, "note", "string", "required"), syntax="proto2")
AND = field(1, "a", "int32"), field(2, "b", "string")
OR = [field(1, "a", "int32", oneof_index=0), field(2, "b", "string", oneof_index=0)]
CHOICE = order(*OR, one_ofs={"Order": ["choice"]})


def nested(inner: Any) -> str:
    return text_of(
        file({"Order": [field(1, "of", "Order"), field(2, "item", "Item")], "Item": inner})
    )


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        (OLD, MORE),
        (MORE, OLD),
        (order(field(1, "renamed", "int64")), OLD),
        (order(field(1, "id", "int64", "many")), OLD),
        (OLD, order(field(1, "id", "int32"))),
        (OLD, order(field(1, "id", "bool"))),
        (order(field(1, "id", "bytes")), OTHER),
        (order(*AND), CHOICE),
        (CHOICE, CHOICE),
        (state("proto3", NEW=0), state("proto3", NEW=0, SENT=1)),
        (state("proto2", NEW=0, SENT=1), state("proto2", NEW=0)),
        (OLD, STRICT),
        (nested([ID]), nested([ID, field(2, "x", "bool")])),
    ],
)
def test_it_can_be_read(reader: str, writer: str) -> None:
    assert unreadable(schema_of(reader), schema_of(writer)) is None


@pytest.mark.parametrize(
    ("reader", "writer", "why"),
    [
        (OTHER, OLD, "int64 cannot be read as string (at id)"),
        (order(field(1, "id", "int32")), OLD, "int64 cannot be read as int32 (at id)"),
        (OTHER, order(field(1, "id", "bytes")), "bytes cannot be read as string (at id)"),
        (OLD, order(field(1, "id", "sint64")), "sint64 cannot be read as int64 (at id)"),
        (OLD, order(field(1, "id", "int64", "many")), "was repeated (at id)"),
        (STRICT, OLD, "required, and is not in the other schema (at note)"),
        (STRICT, MORE, "required, and is not in the other schema (at note)"),
        (CHOICE, order(*AND), "a and b were not in one oneof"),
        (state("proto2", NEW=0), state("proto2", NEW=0, SENT=1), "SENT is gone from shop.State"),
        (state("proto2", NEW=0), state("proto3", NEW=0), "shop.State is closed, and was open"),
        (nested([OTHER and field(1, "id", "string")]), nested([ID]), "(at item/id)"),
    ],
)
def test_it_cannot_be_read(reader: str, writer: str, why: str) -> None:
    assert why in (unreadable(schema_of(reader), schema_of(writer)) or "")


def test_a_map_is_not_a_list_of_messages() -> None:
    pair = [field(1, "key", "string"), field(2, "value", "string")]
    entry = field(1, "of", "Order.OfEntry", "many")
    plain = text_of(file({"Order": [entry], "Order.OfEntry": pair}))
    named = text_of(
        file({"Order": [entry], "Order.OfEntry": pair}, entries=frozenset({"Order.OfEntry"}))
    )
    assert unreadable(schema_of(named), schema_of(named)) is None
    assert "a map is not" in (unreadable(schema_of(named), schema_of(plain)) or "")


def topic(*schemas: str, rule: str) -> Topic:
    """A topic that has had these schemas."""
    said: dict[str, Any] = {"value_schema": schemas[0], "value_schema_type": "protobuf"}
    found = Topic(topic="t", topic_id="i", version=0, **checked_config("t", said))
    for schema in schemas[1:]:
        full = altered(found, {"value_schema": schema}, {}, 0)
        assert full is not None
        earlier = schemas_of(found)
        found = Topic(topic="t", topic_id="i", version=0, earlier_schemas=earlier, **full)
    return found.model_copy(update={"value_compatibility": rule})


@pytest.mark.parametrize(
    ("rule", "had", "new", "fault"),
    [
        ("none", [OLD], OTHER, None),
        ("full", [OLD], MORE, None),
        ("backward", [OLD], STRICT, "not backward compatible with version 1"),
        ("forward", [OLD], STRICT, None),
        ("forward", [STRICT], OLD, "not forward compatible with version 1"),
        ("backward", [OTHER, OLD], MORE, None),
        ("backward_transitive", [OTHER, OLD], MORE, "compatible with version 1"),
    ],
)
def test_a_change_is_judged_by_the_rule_of_the_topic(
    rule: str, had: list[str], new: str, fault: str | None
) -> None:
    found = topic(*had, rule=rule)
    if fault is None:
        assert altered(found, {"value_schema": new}, {}, 0) is not None
        return
    with pytest.raises(InvalidRequest, match=fault) as refused:
        altered(found, {"value_schema": new}, {}, 0)
    assert "new numbers" in (refused.value.hint or "")


def test_schemas_of_another_kind_are_remembered_and_do_not_count() -> None:
    found = topic(OLD, rule="full")
    avro = altered(found, {"value_schema": '"int"', "value_schema_type": "avro"}, {}, 0)
    assert avro is not None
    then = Topic(topic="t", topic_id="i", version=1, earlier_schemas=schemas_of(found), **avro)
    assert [one.kind for one in schemas_of(then)] == ["protobuf", "avro"]
    back = {"value_schema": OTHER, "value_schema_type": "protobuf"}
    with pytest.raises(InvalidRequest, match="not backward compatible with version 1"):
        altered(then, back, {}, 0)
