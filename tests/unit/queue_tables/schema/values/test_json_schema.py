"""Which values satisfy a topic's schema, and which schemas are taken."""

from __future__ import annotations

import time
import tracemalloc

import orjson
import pytest

from lakequeue.errors import InvalidRequest, TooLarge
from lakequeue.records import Format
from queue_rules.produce.json_body import json_request_of
from queue_rules.produce.validation import Limits
from queue_tables.schema.topic_rules import checked_config
from queue_tables.schema.values.json_schema import ValueSchema
from queue_tables.schema.values.rules import values_of
from tests.unit.queue_tables.schema.values.test_json_cost import ORDER as PEOPLES
from tests.unit.queue_tables.schema.values.test_json_cost import doubled

ORDER = '{"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}'


@pytest.mark.parametrize(
    ("value", "fmt", "fault"),
    [
        (b'{"id":1}', Format.JSON, None),
        (b'{"id":100000000000000000000000}', Format.JSON, None),
        (b'{"id":"x"}', Format.JSON, "(at id)"),
        (b"{}", Format.JSON, '"id" is a required property'),
        (b'{"id":1}', Format.TEXT, None),
        (b'{"id":1.5}', Format.TEXT, "(at id)"),
        (b"text", Format.TEXT, "is not of type"),
        (b'{"id":1}', Format.BYTES, "bytes"),
        (None, Format.BYTES, None),
    ],
)
def test_a_value_is_judged_by_what_it_holds(
    value: bytes | None, fmt: Format, fault: str | None
) -> None:
    found = ValueSchema(ORDER).fault(value, fmt)
    assert (found is None) == (fault is None)
    assert fault is None or (found is not None and fault in found)


def test_text_that_holds_an_object_is_judged_as_one_also_where_any_string_would_do() -> None:
    schema = ValueSchema('{"required": ["id"]}')
    assert schema.fault(b"{}", Format.TEXT) is not None
    assert schema.fault(b'{"id": 1}', Format.TEXT) is None
    assert schema.fault(b"plain", Format.TEXT) is None


def test_text_may_satisfy_as_a_string() -> None:
    schema = ValueSchema('{"type": "string", "maxLength": 3}')
    assert schema.fault(b"123", Format.TEXT) is None
    assert schema.fault(b"12345", Format.TEXT) is not None
    assert schema.fault(b'"abc"', Format.JSON) is None


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "5",
        '{"type": "objet"}',
        '{"pattern": "("}',
        '{"$ref": "#/nowhere"}',
        '{"$ref": "http://127.0.0.1:1/schema.json"}',
        '{"$ref": "file:///etc/passwd"}',
    ],
)
def test_what_is_no_schema_of_its_own_is_refused_when_the_topic_is_made(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        checked_config("orders", {"value_schema": text})
    assert refused.value.extra["field"] == "value_schema"


def test_one_bad_value_refuses_the_request_and_is_named() -> None:
    limits = Limits(1, "crc32", 1_000, 10, values_of(ORDER))
    good = b'{"records":[{"value":{"id":1}},{"value":null}]}'
    assert len(json_request_of(good, "t", limits).rows) == 2
    with pytest.raises(InvalidRequest, match=r"record 1: .*integer") as refused:
        json_request_of(b'{"records":[{"value":{"id":1}},{"value":{"id":""}}]}', "t", limits)
    assert (refused.value.extra["record"], refused.value.extra["field"]) == (1, "value")


@pytest.mark.parametrize(
    "pattern",
    ["^(a+)+$", "^(a|a)*$", r"(?:(?=a)a|a)*b\b(?!c)", r"^(?:(a+)+)+\1b$", "(?=(a+)+c)(a+)+c"],
)
def test_no_pattern_takes_long_whatever_the_text(pattern: str) -> None:
    """One took 125 ms of each value, and a hundred such values 12 s of the node."""
    schema = ValueSchema(orjson.dumps({"type": "string", "pattern": pattern}).decode())
    values = [b"a" * 2_000 + b"!"] * 100
    began = time.process_time()
    assert all(schema.fault(value, Format.TEXT) is not None for value in values)
    assert time.process_time() - began < 2.0


def test_patterns_that_look_ahead_still_judge() -> None:
    schema = ValueSchema(r'{"type": "string", "pattern": "^(?=.*\\d)(?=.*[a-z]).{8,}$"}')
    assert schema.fault(b"abcdefg1" * 100, Format.TEXT) is None
    assert schema.fault(b"abcdefgh", Format.TEXT) is not None


def of_levels(levels: int) -> ValueSchema:
    """A list of integers, each judged by a definition that refers twice to the next."""
    schema = doubled(levels)
    schema["$defs"][f"a{levels}"] = {"type": "integer"}
    return ValueSchema(
        orjson.dumps({"$defs": schema["$defs"], "items": {"$ref": "#/$defs/a0"}}).decode()
    )


def test_what_a_value_costs_grows_with_its_places_and_with_the_schema() -> None:
    some, more = b"[" + b"1," * 99 + b"1]", b"[" + b"1," * 999 + b"1]"
    plain, doubled_ = of_levels(1), of_levels(5)
    assert plain.evaluations(more) >= 9 * plain.evaluations(some)
    assert doubled_.evaluations(some) >= 9 * plain.evaluations(some)
    assert plain.evaluations(b'"' + b"x" * 10_000 + b'"') >= 1_000


def test_a_value_with_too_many_places_for_its_schema_is_refused_before_it_is_judged() -> None:
    """62 KiB of integers took 5.5 s of a node, by a schema of 814 bytes."""
    schema = of_levels(9)
    limits = Limits(1, "crc32", 1 << 20, 100, schema)
    record = b'{"value":[' + b"1," * 31_000 + b'"no integer"]}'
    with pytest.raises(TooLarge, match=r"record 1: the value may take .* evaluations") as refused:
        json_request_of(b'{"records":[{"value":[1]},' + record + b"]}", "t", limits)
    assert refused.value.extra == {"record": 1, "field": "value"}


def test_a_request_with_too_many_such_values_is_refused() -> None:
    limits = Limits(1, "crc32", 1 << 20, 1_000, of_levels(9))
    value = b'{"value":[' + b"1," * 499 + b"1]}"
    assert len(json_request_of(b'{"records":[' + value + b"]}", "t", limits).rows) == 1
    with pytest.raises(TooLarge, match="evaluations") as refused:
        json_request_of(b'{"records":[' + b",".join([value] * 300) + b"]}", "t", limits)
    assert 0 < refused.value.extra["record"] < 300


def test_values_as_they_are_sent_are_judged() -> None:
    lines = [
        {"sku": f"sku {n}", "count": n, "price": 9.5, "note": "as usual"} for n in range(9_000)
    ]
    value = orjson.dumps({"id": 1, "lines": lines})
    assert 500_000 < len(value) < 1 << 20
    schema = ValueSchema(orjson.dumps(PEOPLES).decode())
    assert schema.evaluations(value) > 0
    assert schema.fault(value, Format.JSON) is None


def test_a_value_that_is_wrong_in_many_places_is_one_fault() -> None:
    schema = ValueSchema('{"items": {"type": "string"}}')
    value = b"[" + b"1," * 20_000 + b"1]"
    tracemalloc.start()
    try:
        assert schema.fault(value, Format.JSON) == '1 is not of type "string" (at 0)'
        kept = tracemalloc.get_traced_memory()[1] - len(value) * 12  # orjson's own
    finally:
        tracemalloc.stop()
    assert kept < 1 << 20
