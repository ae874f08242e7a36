"""Keys, values, headers and times pass the wire and come out as they came in."""

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakequeue import wire
from lakequeue.errors import InvalidRequest
from lakequeue.records import Format, Offset, Partition, Record

json_values = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner | st.text(), max_size=4)
        | st.dictionaries(st.text(), inner | st.text() | st.none(), max_size=4)
    ),
    max_leaves=10,
)


@given(st.none() | st.binary() | st.text() | json_values)
def test_a_value_comes_out_as_it_came_in(value: Any) -> None:
    data, fmt = wire.to_bytes(value)
    sent = orjson.dumps(wire.key_value_to_json("value", data, fmt))
    received = wire.key_value_from_json("value", orjson.loads(sent))
    assert received == (data, fmt)
    assert wire.from_bytes(*received) == value


@given(st.lists(st.tuples(st.text(), st.none() | st.binary()), max_size=5))
def test_headers_keep_order_repetition_and_bytes(headers: list[tuple[str, bytes | None]]) -> None:
    sent = orjson.loads(orjson.dumps(wire.headers_to_json(headers)))
    assert wire.headers_from_json(sent) == headers


def test_headers_may_be_an_object_of_texts() -> None:
    assert wire.headers_from_json({"a": "1", "b": None}) == [("a", b"1"), ("b", None)]


@pytest.mark.parametrize("bad", ["text", 7, [1], [{"value": "x"}], {"a": 1}, [{"key": "a"}] * 65])
def test_bad_headers_are_refused_by_name(bad: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        wire.headers_from_json(bad)
    assert caught.value.extra["field"] == "headers"


@pytest.mark.parametrize(
    "record",
    [{"value_base64": "***"}, {"value_base64": 7}, {"value": "a", "value_base64": "YQ=="}],
)
def test_damaged_or_ambiguous_values_are_refused(record: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        wire.key_value_from_json("value", record)
    assert caught.value.extra["field"] in {"value", "value_base64"}


def test_a_value_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="set"):
        wire.to_bytes({1, 2})


def test_timestamps_are_microseconds_or_rfc_3339() -> None:
    moment = datetime(2013, 1, 31, 7, 0, 0, 123_456, tzinfo=UTC)
    micros = 1_359_615_600_123_456
    assert wire.to_micros(moment) == micros
    assert wire.timestamp_from_json(micros) == micros
    assert wire.timestamp_from_json("2013-01-31T07:00:00.123456Z") == micros
    assert wire.timestamp_from_json("2013-01-31T02:00:00.123456-05:00") == micros


@pytest.mark.parametrize("bad", [True, -1, 1.5, "yesterday", "2013-01-31T07:00:00", None, 1 << 63])
def test_other_timestamps_are_refused(bad: Any) -> None:
    with pytest.raises(InvalidRequest):
        wire.timestamp_from_json(bad)


def test_receipts_name_one_delivery() -> None:
    receipt = wire.receipt_of("abc", 3, 42, 7)
    assert wire.parse_receipt(receipt) == ("abc", 3, 42, 7, 1)


@pytest.mark.parametrize("bad", ["", "a.b.c", "x.1.2.3", ".1.2.3.4", "a.1.2.3.-4", "a.1.2.3.²"])
def test_damaged_receipts_are_refused(bad: str) -> None:
    with pytest.raises(InvalidRequest):
        wire.parse_receipt(bad)


def test_a_record_is_delivered_as_it_was_sent() -> None:
    record = Record(
        "orders", Partition(1), Offset(5), b"k", b'{"a": 1.0}', Format.TEXT, Format.JSON
    )
    sent = orjson.dumps(wire.record_to_json(record, "r"))
    assert b'"value":{"a": 1.0}' in sent, "JSON is passed through byte for byte"
    assert orjson.loads(sent)["key"] == "k"


def test_requests_refuse_unknown_fields_and_answers_allow_them() -> None:
    with pytest.raises(ValueError, match="extra"):
        wire.TopicConfig.model_validate({"partitons": 3})
    answer = {"member_id": "m", "session_timeout_ms": 1, "new": True}
    assert wire.JoinAnswer.model_validate(answer).assignment == []


def test_topic_changes_tell_null_from_unset() -> None:
    changes = wire.TopicChanges.model_validate({"retention_ms": None})
    assert changes.model_dump(exclude_unset=True) == {"retention_ms": None}


def test_a_record_is_named_in_one_word() -> None:
    assert wire.place_of("a.b-c", 3, 42) == "a.b-c/3@42"
    assert wire.parse_place("a.b-c/3@42") == ("a.b-c", 3, 42)


@pytest.mark.parametrize(
    "bad", ["", "orders", "orders/0", "/0@1", "orders/0@", "orders/x@1", "o/0@-1"]
)
def test_what_names_no_record_is_refused(bad: str) -> None:
    with pytest.raises(InvalidRequest, match=r"names no record; write topic/partition@offset"):
        wire.parse_place(bad)


def test_each_name_of_the_wire_is_found_where_it_is_declared() -> None:
    found = {name: getattr(wire, name) for name in wire.__all__}
    assert all(
        thing.__module__.startswith(("lakequeue.wire.", "lakequeue.times"))
        for thing in found.values()
        if isinstance(thing, type)
    )
    with pytest.raises(AttributeError, match="no attribute 'Anything'"):
        _ = wire.Anything
