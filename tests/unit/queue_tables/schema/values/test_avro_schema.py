"""Which bytes are a value of an Avro schema; and that neither schemas nor values cost much."""

from __future__ import annotations

import io
import time
from decimal import Decimal
from typing import Any

import fastavro
import orjson
import pytest

from lakequeue.errors import InvalidRequest, TooLarge
from lakequeue.records import Format
from queue_rules.produce.rows import Rows
from queue_rules.produce.validation import Limits, check_values
from queue_tables.schema.topic_rules import checked_config
from queue_tables.schema.values.avro_schema import SINGLE_OBJECT, AvroSchema, AvroValues
from queue_tables.schema.values.rules import values_of

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "paid", "type": "boolean"},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9}},
        {"name": "weights", "type": {"type": "array", "items": ["float", "double", "int"]}},
        {"name": "notes", "type": {"type": "map", "values": "string"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "SENT"]}},
        {"name": "mark", "type": {"type": "fixed", "name": "Mark", "size": 4}},
        {"name": "before", "type": ["null", "Order"]},
        {"name": "nothing", "type": "null"},
    ],
}
VALUE = {
    "id": -(1 << 63),
    "paid": True,
    "total": Decimal(12),
    "weights": [1.5, 7, -3],
    "notes": {"ä": "ö", "b": ""},
    "state": "SENT",
    "mark": b"abcd",
    "before": None,
    "nothing": None,
}


def text_of(schema: Any) -> str:
    return orjson.dumps(schema).decode()


def encoded(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(orjson.loads(text_of(schema))), value)
    return out.getvalue()


def faults(schema: Any, value: bytes) -> str | None:
    return AvroSchema(text_of(schema)).fault(value)


def test_what_fastavro_writes_is_a_value_and_nothing_shorter_or_longer_is() -> None:
    value = encoded(ORDER, VALUE | {"before": VALUE | {"weights": []}})
    schema = AvroSchema(text_of(ORDER))
    assert schema.fault(value) is None
    assert [n for n in range(len(value)) if schema.fault(value[:n]) is None] == []
    assert schema.fault(value + b"\0") == "1 bytes are left behind it"
    assert schema.fault(b"") == "there is no number of 64 bits (at id)"


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        ("boolean", b"\x02", "2 is no boolean"),
        ("int", b"\x80\x80\x80\x80\x20", "is no int"),
        ("long", b"\xff" * 9 + b"\x02", "no number of 64 bits"),
        ("long", b"\xff" * 20, "no number of 64 bits"),
        ("string", b"\x02\xff", "text is not UTF-8"),
        ("string", b"\x01", "a length is -1"),
        ("bytes", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "are needed"),
        ("float", b"\0\0\0", "3 bytes are left, and 4 are needed"),
        (["null", "int"], b"\x04", "2 is none of 2 branches"),
        (["null", "int"], b"\x01", "-1 is none of 2 branches"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "1 is none of 1 symbols"),
        ({"type": "array", "items": "int"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "says"),
        ({"type": "array", "items": "int"}, b"\x01\x04\x02\x00", "not as long as it says"),
        ({"type": "array", "items": "int"}, b"\x01\x03\x02\x00", "says 1 items"),
        ({"type": "map", "values": "int"}, b"\x02\x02\xff\x02\x00", "text is not UTF-8 (at *)"),
    ],
)
def test_what_is_no_value_is_named(schema: Any, value: bytes, why: str) -> None:
    assert why in (faults(schema, value) or "")


def test_blocks_that_tell_their_size_are_values_too() -> None:
    assert faults({"type": "array", "items": "int"}, b"\x01\x02\x02\x00") is None
    assert faults({"type": "array", "items": "string"}, b"\x03\x08\x02a\x02b\x00") is None


def test_a_value_that_goes_deep_is_refused_and_not_followed() -> None:
    chain = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
    assert faults(chain, b"\x02" * 20 + b"\x00") is None
    assert "deeper than 100 levels" in (faults(chain, b"\x02" * 1_000_000 + b"\x00") or "")
    nest: Any = {"type": "array", "items": ["int", "N"]}
    tree = {"type": "record", "name": "N", "fields": [{"name": "of", "type": nest}]}
    assert "deeper than 100 levels" in (faults(tree, b"\x02\x02" * 500_000) or "")


def doubling(levels: int, leaf: str) -> dict[str, Any]:
    """A record of two records of two records, and so on."""
    schema: Any = leaf
    for n in range(levels):
        first: Any = {"name": "a", "type": schema}
        named = schema if isinstance(schema, str) else schema["name"]
        fields = [first, {"name": "b", "type": named}]
        schema = {"type": "record", "name": f"R{n}", "fields": fields}
    return dict(schema)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (doubling(30, "null"), "more than 2000 parts"),
        (doubling(30, "int"), "more than 2000 parts"),
        ({"type": "array", "items": doubling(30, "int")}, "more than 2000 parts"),
        ({"type": "array", "items": "null"}, "may take no bytes"),
        ({"type": "array", "items": doubling(3, "null")}, "may take no bytes"),
        ("no-such-type", "no-such-type"),
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "B"}]}, "B"),
        (5, ""),
        (None, ""),
        ({}, ""),
        ([], ""),
        ({"type": "fixed", "name": "F", "size": -1}, ""),
        ({"type": "fixed", "name": "F", "size": "many"}, ""),
        ({"type": "enum", "name": "E", "symbols": [1]}, ""),
        ({"type": "enum", "name": "E", "symbols": "A"}, ""),
    ],
)
def test_what_is_no_schema_or_costs_too_much_is_refused_when_the_topic_is_made(
    schema: Any, why: str
) -> None:
    began = time.process_time()
    with pytest.raises(InvalidRequest) as refused:
        checked_config("t", {"value_schema": text_of(schema), "value_schema_type": "avro"})
    assert refused.value.extra["field"] == "value_schema"
    assert why in refused.value.detail
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[" * 900 + '"int"' + "]" * 900,
        '{"type":' * 900 + '"int"' + "}" * 900,
        '{"type":"array","items":' * 150 + '"int"' + "}" * 150,
        '{"type":"record","name":"R","fields":[{"name":"a","type":' * 60 + '"int"' + "}]}" * 60,
    ],
    ids=["half", "lists", "types", "arrays", "records"],
)
def test_a_text_that_is_none_or_is_deep_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="not an Avro schema"):
        checked_config("t", {"value_schema": text, "value_schema_type": "avro"})


def test_what_a_record_and_a_request_may_cost_is_bounded() -> None:
    schema = text_of({"type": "array", "items": "boolean"})
    limits = Limits(1, "crc32", 1 << 20, 10_000, values_of(schema, "avro"))
    whole = b"\x80\x80\x40" + b"\x01" * (1 << 19) + b"\x00"
    rows = Rows(values=[whole], value_formats=[int(Format.BYTES)])
    check_values(rows, limits)
    with pytest.raises(TooLarge, match="at most 100000000 in a request"):
        check_values(Rows(values=[whole] * 30, value_formats=[0] * 30), limits)
    with pytest.raises(TooLarge, match="steps in the topic"):
        check_values(Rows(values=[b"\0" * (9 << 20)], value_formats=[0]), limits)


def test_values_are_bytes_and_a_tombstone_is_not_judged() -> None:
    values = values_of('"int"', "avro")
    assert values is not None
    assert values.fault(b"\x02", Format.BYTES) is None
    assert values.fault(None, Format.BYTES) is None
    assert values.fault(b"1", Format.JSON) == "it is JSON, and the schema is of Avro: send bytes"
    assert values.fault(b"1", Format.TEXT) == "it is text, and the schema is of Avro: send bytes"


def test_a_value_says_which_schema_of_its_topic_it_is_of() -> None:
    old, new = AvroSchema('"int"'), AvroSchema('"string"')
    both = AvroValues('"string"', ('"int"',))
    assert both.fault(SINGLE_OBJECT + old.fingerprint + b"\x02") is None
    assert both.fault(SINGLE_OBJECT + new.fingerprint + b"\x02a") is None
    assert both.fault(b"\x02a") is None
    # Without a fingerprint it is of the present schema.
    assert both.fault(b"\x06") == "0 bytes are left, and 3 are needed"
    unknown = SINGLE_OBJECT + b"\1\2\3\4\5\6\7\x08" + b"\x02"
    assert both.fault(unknown) is not None
    # The framing of a schema registry: a zero, and the number of a schema.
    assert both.fault(b"\0\0\0\0\1" + b"\x02a") is not None


def test_fingerprints_are_those_of_the_specification() -> None:
    """Of the tables of Avro's own tests."""
    assert AvroSchema('"int"').fingerprint[::-1].hex() == "7275d51a3f395c8f"


def test_a_value_that_only_warns_is_taken_and_marked() -> None:
    limits = Limits(1, "crc32", 100, 10, values_of('"int"', "avro"), policy="warn")
    rows = Rows(values=[b"\x02", b"", b"x"], value_formats=[0, 0, 1])
    check_values(rows, limits)
    assert rows.faulty == 2
    assert rows.headers is not None
    assert [dict(one) for one in rows.headers] == [
        {},
        {"lakequeue-value-fault": b"there is no number of 64 bits"},
        {"lakequeue-value-fault": b"it is text, and the schema is of Avro: send bytes"},
    ]
