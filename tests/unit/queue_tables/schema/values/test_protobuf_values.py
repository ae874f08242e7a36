"""Which bytes are a value of a Protobuf message; and that neither schemas nor values cost much."""

from __future__ import annotations

import time
from typing import Any

import pytest
from google.protobuf import struct_pb2
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from lakequeue.errors import InvalidRequest, TooLarge
from lakequeue.protobuf import schema_of, text_of_file
from lakequeue.records import Format
from queue_rules.produce.rows import Rows
from queue_rules.produce.validation import Limits, check_values
from queue_tables.schema.topic_rules import checked_config
from queue_tables.schema.values.protobuf_values import ProtobufValues
from queue_tables.schema.values.rules import values_of
from tests.unit.queue_tables.schema.values.protobufs import class_of, field, file, text_of

NUMBERS = ("int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool")
FIXED = ("fixed32", "fixed64", "sfixed32", "sfixed64", "float", "double")
ORDER = file(
    {
        "Order": [
            field(1, "id", "int64", "required"),
            field(2, "note", "string"),
            field(3, "items", "Item", "many"),
            field(4, "state", "enum State"),
            field(5, "counts", "sint32", "many"),
            field(6, "weights", "double", "many"),
            field(7, "before", "Order"),
            field(8, "data", "bytes"),
            field(9, "flag", "bool"),
            field(10, "small", "int32"),
            field(11, "old", "group Old"),
        ],
        "Item": [field(1, "sku", "string"), field(2, "price", "float")],
        "Old": [field(1, "x", "fixed32")],
    },
    {"State": {"NEW": 0, "SENT": 7, "GONE": -1}},
    syntax="proto2",
)
VALUES = ProtobufValues(text_of(ORDER))
Order = class_of(ORDER, "Order")


def order(**more: Any) -> bytes:
    return bytes(Order(id=-5, **more).SerializeToString())


WHOLE = order(
    note="ä",
    items=[{"sku": "a", "price": 1.5}, {}],
    state=7,
    counts=[1, -2, 300],
    weights=[0.5, 1.5],
    before=Order(id=1, before=Order(id=2)),
    data=b"\xff",
    flag=True,
    small=-1,
    old={"x": 4},
)


def test_what_the_library_writes_is_a_value_and_what_is_cut_off_within_a_field_is_none() -> None:
    assert VALUES.fault(WHOLE) is None
    for n in range(2, len(WHOLE)):
        try:
            Order.FromString(WHOLE[:n])
        except DecodeError:
            assert VALUES.fault(WHOLE[:n]) is not None
        else:
            assert VALUES.fault(WHOLE[:n]) is None


@given(st.one_of(st.binary(max_size=40), st.binary(max_size=12).map(lambda more: WHOLE + more)))
def test_what_is_a_value_can_be_read_by_the_library(data: bytes) -> None:
    if VALUES.fault(data) is None:
        assert Order.FromString(data).IsInitialized()


def test_all_kinds_of_numbers_are_taken_alone_and_packed_and_in_parts() -> None:
    kinds = [*NUMBERS, *FIXED]
    fields = [field(n, kind, kind, "many") for n, kind in enumerate(kinds, 1)]
    for syntax in ("proto2", "proto3"):  # of proto2 they are not packed
        made = file({"Numbers": fields}, syntax=syntax)
        message = class_of(made, "Numbers")()
        for kind in kinds:
            getattr(message, kind).extend([0, 1])
        message.int32.extend([-(1 << 31), (1 << 31) - 1])
        message.int64.append(-(1 << 63))
        message.uint64.append((1 << 64) - 1)
        message.sint32.append(-(1 << 31))
        packed = message.SerializeToString()
        for reader in ("proto2", "proto3"):
            values = ProtobufValues(text_of(file({"Numbers": fields}, syntax=reader)))
            assert values.fault(packed + packed) is None


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "id is required, and missing"),
        (b"\x08", "there is no number of 64 bits (at id)"),
        (b"\x08" + b"\xff" * 10 + b"\x01", "there is no number of 64 bits (at id)"),
        (b"\x0a\x01a", "int64 is not written as a length (at id)"),
        (order() + b"\x12\x01\xff", "text is not UTF-8 (at note)"),
        (order() + b"\x12\x05a", "1 bytes are left, and 5 are needed (at note)"),
        (order() + b"\x1a\x02\x0a\x05", "0 bytes are left, and 5 are needed (at items/sku)"),
        (order() + b"\x20\x03", "3 is none of shop.State (at state)"),
        (order() + b"\x48\x02", "2 is no bool (at flag)"),
        (order() + b"\x50\xff\xff\xff\xff\xff\x01", "is no int32 (at small)"),
        (order() + b"\x32\x07" + b"\0" * 7, "7 bytes are left, and 8 are needed (at weights)"),
        (order() + b"\x3a\x00", "id is required, and missing (at before)"),
        (order() + b"\x5b\x5c" + b"\x0c", "a group 1 ends that did not begin"),
        (order() + b"\x5b\x0d\0\0\0\0", "there is no number of 64 bits (at old)"),
        (order() + b"\xf3\x07\x74", "a group 14 ends that did not begin"),
        (order() + b"\x00", "0 begins no field"),
        (order() + b"\xff\x07", "1023 begins no field"),
        (b"\x00\x00\x00\x00\x01" + order(), "0 begins no field"),  # of a schema registry
    ],
)
def test_what_is_no_value_is_named(value: bytes, why: str) -> None:
    assert why in (VALUES.fault(value) or "")


def test_fields_that_the_schema_does_not_know_are_passed_over() -> None:
    for more in (
        b"\x98\x06\x05",
        b"\xa2\x06\x01x",
        b"\x9d\x06" + b"\0" * 4,
        b"\x99\x06" + b"\0" * 8,
    ):
        assert VALUES.fault(order() + more) is None
    assert VALUES.fault(order() + b"\xf3\x07\x08\x01\xfb\x07\xfc\x07\xf4\x07") is None


def test_a_value_that_goes_deep_is_refused_and_not_followed() -> None:
    value = b""
    while len(value) < 1 << 16:
        value = b"\x08\x01\x3a" + _length(len(value)) + value
    assert "deeper than 100 levels" in (VALUES.fault(value) or "")
    assert "deeper than 100 levels" in (VALUES.fault(order() + b"\x5b" * 500_000) or "")
    assert "deeper than 100 levels" in (VALUES.fault(order() + b"\xf3\x07" * 500_000) or "")


def _length(size: int) -> bytes:
    found = b""
    while size >= 0x80:
        found, size = found + bytes([size & 0x7F | 0x80]), size >> 7
    return found + bytes([size])


def test_a_schema_is_made_of_a_class_with_all_that_it_imports() -> None:
    values = ProtobufValues(schema_of(struct_pb2.ListValue))
    many = struct_pb2.ListValue()
    many.extend([1, "x", None, [True]])
    assert values.fault(many.SerializeToString()) is None
    assert values.fault(b"\x0a\x02\x0a\x05") is not None
    with pytest.raises(InvalidRequest, match="no class of a Protobuf message"):
        schema_of(dict)


def test_a_file_of_protoc_becomes_a_text_and_a_text_stays() -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    text = text_of_file(FileDescriptorSet(file=[ORDER]).SerializeToString())
    assert ProtobufValues(text).fault(order()) is None
    for plain in ('{"type": "integer"}', '\n{"type": "integer"}\n'):
        assert text_of_file(plain.encode()) == plain


def test_a_schema_says_which_message_values_are() -> None:
    item = ProtobufValues(text_of(ORDER, message="shop.Item"))
    assert item.fault(b"") is None
    assert item.fault(b"\x0a\x01a") is None


def _many_required(count: int) -> str:
    fields = [field(n, f"f{n}", "bool", "required") for n in range(1, count + 1)]
    return text_of(file({"Order": fields}, syntax="proto2"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "no JSON object"),
        ("[]", "no JSON object"),
        ("{}", "no `descriptors`"),
        ('{"descriptors": 5}', "are texts"),
        ('{"descriptors": "?"}', "no base64"),
        ('{"descriptors": "enp6"}', "no FileDescriptorSet"),
        ('{"descriptors": ""}', "have no file"),
        ('{"descriptors": "", "more": 1}', "more than"),
        (text_of(file({})), "order.proto has no message"),
        (text_of(ORDER, message="shop.Nothing"), "no message 'shop.Nothing'"),
        (text_of(file({"Order": [field(1, "x", "Missing")]})), "Missing"),
        (text_of(file({"Order": [field(1, "x", "bool"), field(1, "y", "bool")]})), ""),
        (_many_required(100), "Too many required fields"),
    ],
)
def test_what_is_no_schema_or_costs_too_much_is_refused_when_the_topic_is_made(
    text: str, why: str
) -> None:
    began = time.process_time()
    with pytest.raises(InvalidRequest, match="not a Protobuf schema") as refused:
        checked_config("t", {"value_schema": text, "value_schema_type": "protobuf"})
    assert refused.value.extra["field"] == "value_schema"
    assert why in refused.value.detail
    assert time.process_time() - began < 1


def test_what_a_record_may_cost_is_bounded_by_what_its_messages_require() -> None:
    cheap, dear = (
        values_of(text_of(ORDER), "protobuf"),
        values_of(_many_required(60), "protobuf"),
    )
    assert cheap is not None
    assert dear is not None
    assert cheap.evaluations(b"x" * 100) == 9 * 202
    assert cheap.evaluations(None) == 0
    limits = Limits(1, "crc32", 1 << 20, 10_000, dear)
    with pytest.raises(TooLarge, match="steps in the topic's schema"):
        check_values(Rows(values=[b"\0" * 40_000], value_formats=[0]), limits)


def test_values_are_bytes_and_a_tombstone_is_not_judged() -> None:
    values = values_of(text_of(ORDER), "protobuf")
    assert values is not None
    assert values.fault(order(), Format.BYTES) is None
    assert values.fault(None, Format.BYTES) is None
    for fmt, kind in ((Format.JSON, "JSON"), (Format.TEXT, "text")):
        assert values.fault(b"1", fmt) == f"it is {kind}, and the schema is of Protobuf: send bytes"
