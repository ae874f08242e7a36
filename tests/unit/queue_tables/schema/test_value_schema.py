"""Which values satisfy a topic's schema, and which schemas are taken."""

from __future__ import annotations

import time

import orjson
import pytest

from lakequeue.errors import InvalidRequest
from lakequeue.records import Format
from queue_rules.produce.json_body import json_request_of
from queue_rules.produce.validation import Limits
from queue_tables.schema.topic_rules import checked_config
from queue_tables.schema.value_schema import ValueSchema, value_schema_of

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
    limits = Limits(1, "crc32", 1_000, 10, value_schema_of(ORDER))
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
