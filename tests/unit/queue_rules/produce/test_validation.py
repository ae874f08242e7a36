"""Records to columns: what comes in stands in the columns, and a fault is named."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import pytest

from lakequeue.errors import InvalidRequest, TooLarge
from lakequeue.partitioner import murmur2
from lakequeue.records import Format
from queue_rules.produce.rows import NO_PARTITION, NO_TIMESTAMP
from queue_rules.produce.validation import Limits, columns_of

LIMITS = Limits(partitions=4, partitioner="crc32", max_record_bytes=100, max_records=10)


@pytest.mark.parametrize(
    ("record", "value", "fmt"),
    [
        ({"value": "text"}, b"text", Format.TEXT),
        ({"value": ""}, b"", Format.TEXT),
        ({"value": "ä€"}, "ä€".encode(), Format.TEXT),
        ({"value": {"b": 1, "a": [1.5, None, True]}}, b'{"b":1,"a":[1.5,null,true]}', Format.JSON),
        ({"value": 7}, b"7", Format.JSON),
        ({"value": False}, b"false", Format.JSON),
        ({"value": None}, None, Format.BYTES),
        ({"value_base64": base64.b64encode(b"\x00\xff").decode()}, b"\x00\xff", Format.BYTES),
        ({"value_base64": ""}, b"", Format.BYTES),
        ({"value": None, "value_base64": "AA=="}, b"\x00", Format.BYTES),
    ],
)
def test_values_keep_their_form(record: dict[str, Any], value: bytes | None, fmt: Format) -> None:
    rows = columns_of([record], LIMITS)
    assert (rows.values, rows.value_formats) == ([value], [fmt])
    assert rows.partitions == [NO_PARTITION]
    assert rows.timestamps == [NO_TIMESTAMP]
    assert rows.sizes == [len(value or b"")]


def test_a_key_has_the_same_forms_and_chooses_the_partition() -> None:
    records: list[dict[str, Any]] = [
        {"value": "", "key": "k"},
        {"value": "", "key": {"id": 1}},
        {"value": "", "key_base64": "AA=="},
        {"value": "", "key": "k", "partition": 3},
        {"value": "", "key": None},
        {"value": "", "key": ""},
    ]
    rows = columns_of(records, LIMITS)
    assert rows.keys == [b"k", b'{"id":1}', b"\x00", b"k", None, b""]
    assert rows.key_formats == [Format.TEXT, Format.JSON, Format.BYTES, Format.TEXT, 0, Format.TEXT]
    assert rows.partitions == [
        zlib.crc32(b"k") % 4,
        zlib.crc32(b'{"id":1}') % 4,
        zlib.crc32(b"\x00") % 4,
        3,
        NO_PARTITION,
        0,
    ]


def test_murmur2_topics_place_keys_as_kafka_does() -> None:
    rows = columns_of([{"key": "abc", "value": 1}], Limits(16, "murmur2", 100, 10))
    assert rows.partitions == [(murmur2(b"abc") & 0x7FFFFFFF) % 16]


def test_ids_headers_and_times() -> None:
    rows = columns_of(
        [
            {"value": 1},
            {"value": 2, "message_id": "mine", "headers": {"a": "x"}},
            {"value": 3, "timestamp": "2013-01-31T07:00:00+02:00", "headers": []},
            {"value": 4, "timestamp": 1_359_608_400_000_000},
        ],
        LIMITS,
        message_id_prefix="p",
        first_sequence=5,
    )
    assert rows.message_ids == ["p:5", "mine", "p:7", "p:8"]
    assert rows.headers == [[], [("a", b"x")], [], []]
    assert rows.timestamps[2:] == [1_359_608_400_000_000] * 2
    assert rows.sizes == [1, 3, 1, 1]


BAD: list[tuple[Any, str]] = [
    ("text", "records"),
    (["value"], "records"),
    ({}, "value"),
    ({"key": "k"}, "value"),
    ({"value": 1, "vlaue": 2}, "vlaue"),
    ({"value": "x", "value_base64": "AA=="}, "value"),
    ({"value_base64": "%%"}, "value_base64"),
    ({"value_base64": 5}, "value_base64"),
    ({"value": 1, "key_base64": "A"}, "key_base64"),
    ({"value": 1, "partition": 4}, "partition"),
    ({"value": 1, "partition": -1}, "partition"),
    ({"value": 1, "partition": "1"}, "partition"),
    ({"value": 1, "partition": True}, "partition"),
    ({"value": 1, "partition": 1.0}, "partition"),
    ({"value": 1, "message_id": ""}, "message_id"),
    ({"value": 1, "message_id": 7}, "message_id"),
    ({"value": 1, "message_id": "x" * 513}, "message_id"),
    ({"value": 1, "headers": "x"}, "headers"),
    ({"value": 1, "headers": 0}, "headers"),
    ({"value": 1, "headers": {"a": 1}}, "headers"),
    ({"value": 1, "headers": [{"value": "x"}]}, "headers"),
    ({"value": 1, "headers": [{"key": "h"}] * 65}, "headers"),
    ({"value": 1, "timestamp": "yesterday"}, "timestamp"),
    ({"value": 1, "timestamp": "2013-01-31T07:00:00"}, "timestamp"),
    ({"value": 1, "timestamp": "1899-12-31T23:59:59Z"}, "timestamp"),
    ({"value": 1, "timestamp": "2200-01-01T00:00:00Z"}, "timestamp"),
    ({"value": 1, "timestamp": 1_359_608_400}, "timestamp"),
    ({"value": 1, "timestamp": 1_359_608_400_000}, "timestamp"),
    ({"value": 1, "timestamp": 1_359_608_400_000_000_000}, "timestamp"),
    ({"value": 1, "timestamp": 1.5}, "timestamp"),
    ({"value": 1, "timestamp": True}, "timestamp"),
]


@pytest.mark.parametrize(("bad", "field"), BAD)
def test_a_fault_is_named_by_record_and_field(bad: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        columns_of([{"value": 1}] * 7 + [bad], LIMITS)
    assert refused.value.extra == {"record": 7, "field": field}
    assert refused.value.detail.startswith("record 7: ")
    assert refused.value.hint
    assert refused.value.stored == "no"
    assert len(refused.value.detail) < 400

    deep: Any = None
    for _ in range(600):
        deep = [deep]
    with pytest.raises(InvalidRequest, match="record 0: value"):
        columns_of([{"value": deep}], Limits(4, "crc32", 10_000, 10))


def test_size_counts_key_value_and_headers() -> None:
    fits = {"key": "k" * 10, "value": "v" * 80, "headers": {"abcde": "12345"}}
    assert columns_of([fits], LIMITS).sizes == [100]
    with pytest.raises(TooLarge, match="record 1: a record of 101 bytes, at most 100") as refused:
        columns_of([fits, fits | {"key": "k" * 11}], LIMITS)
    assert refused.value.extra["record"] == 1


def test_number_of_records() -> None:
    assert len(columns_of([{"value": 1}] * 10, LIMITS)) == 10
    with pytest.raises(TooLarge, match="at most 10"):
        columns_of([{"value": 1}] * 11, LIMITS)
    with pytest.raises(InvalidRequest, match="no records"):
        columns_of([], LIMITS)


def test_what_a_dead_letter_says_of_itself_does_not_count() -> None:
    record = {"value": "x" * 100, "headers": {"lakequeue-reason": "max_attempts"}}
    assert columns_of([record], LIMITS).sizes == [100]
    for headers in (
        {"lakequeue-reason": "y" * 513},
        {"other": "y"},
        {"lakequeue-more-headers": "y"},
    ):
        with pytest.raises(TooLarge):
            columns_of([record | {"headers": headers}], LIMITS)
