"""Arrow streams: typed columns in, and nothing trusted."""

from __future__ import annotations

import contextlib
import tracemalloc
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.http.arrow_body import columns_of_arrow
from ingest.http.bodies import request_of
from lakequeue import wire
from lakequeue.errors import InvalidRequest, LakequeueError, MalformedBody, TooLarge
from lakequeue.records import Format
from queue_rules.produce.rows import NO_PARTITION, NO_TIMESTAMP, Rows
from queue_rules.produce.validation import Limits
from queue_tables.schema.schemas import INBOX
from tests.support.data.hostile_rows import Hostile, hostile_rows

LIMITS = Limits(partitions=4, partitioner="crc32", max_record_bytes=100, max_records=10)


def stream(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as out:
        out.write_table(table)
    return bytes(sink.getvalue())


def parse(table: pa.Table, producer_id: str | None = None, sequence: int | None = None) -> Rows:
    return columns_of_arrow(stream(table), LIMITS, producer_id, sequence)


def test_every_column() -> None:
    at = datetime(2013, 1, 31, 7, tzinfo=UTC)
    rows = parse(
        pa.table(
            {
                "value": pa.array(["a", None, "ä"]),
                "key": pa.array([b"\xff", None, b""]),
                "partition": pa.array([3, None, None], pa.int16()),
                "message_id": ["m", None, None],
                "timestamp": pa.array([at, None, at], pa.timestamp("ms", tz="Europe/Berlin")),
                "headers": pa.array([[("h", b"x")], None, []], pa.map_(pa.string(), pa.binary())),
            }
        ),
        "p",
        4,
    )
    assert rows.values == [b"a", None, "ä".encode()]
    assert rows.value_formats == [Format.TEXT, Format.BYTES, Format.TEXT]
    assert rows.keys == [b"\xff", None, b""]
    assert rows.partitions == [3, NO_PARTITION, 0]
    assert rows.message_ids == ["m", "p:5", "p:6"]
    assert rows.timestamps == [1_359_615_600_000_000, NO_TIMESTAMP, 1_359_615_600_000_000]
    assert rows.headers == [[("h", b"x")], [], []]
    assert rows.sizes == [4, 0, 2]


def test_value_alone_and_large_types() -> None:
    rows = parse(pa.table({"value": pa.array(["a"], pa.large_string())}))
    assert (rows.values, rows.keys, rows.headers) == ([b"a"], [None], None)
    assert parse(pa.table({"value": pa.array([b"a"], pa.large_binary())})).values == [b"a"]
    assert parse(pa.table({"value": pa.nulls(2)})).values == [None, None]


BAD = [
    ({"value": [1, 2]}, "value"),
    ({"key": ["a"]}, "value"),
    ({"value": ["a"], "extra": [1]}, "extra"),
    ({"value": pa.array(["a"], pa.string_view())}, "value"),
    ({"value": ["a"], "partition": ["0"]}, "partition"),
    ({"value": ["a"], "partition": [4]}, "partition"),
    ({"value": ["a"], "message_id": [1]}, "message_id"),
    ({"value": ["a"], "message_id": [""]}, "message_id"),
    ({"value": ["a"], "timestamp": pa.array([0], pa.timestamp("us"))}, "timestamp"),
    ({"value": ["a"], "timestamp": pa.array([1 << 62])}, "timestamp"),
    ({"value": ["a"], "timestamp": pa.array([1 << 62], pa.timestamp("s", tz="UTC"))}, "timestamp"),
    ({"value": ["a"], "headers": ["x"]}, "headers"),
    ({"value": ["a"], "headers": [[{"key": None, "value": b"x"}]]}, "headers"),
    ({"value": pa.array(["a"]).dictionary_encode()}, "records"),
]


@pytest.mark.parametrize(("columns", "field"), BAD)
def test_a_fault_is_named(columns: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(pa.table(columns))
    assert refused.value.extra["field"] == field
    assert refused.value.stored == "no"


def test_limits() -> None:
    with pytest.raises(TooLarge, match="record 1: a record of 101 bytes"):
        parse(pa.table({"value": ["a", "b" * 101]}))
    with pytest.raises(TooLarge, match="at most 10"):
        parse(pa.table({"value": ["a"] * 11}))
    with pytest.raises(TooLarge, match="at most 10"):
        parse(pa.table({"value": pa.nulls(1 << 20)}))
    with pytest.raises(InvalidRequest, match="no records"):
        parse(pa.table({"value": pa.array([], pa.string())}))


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_buffers_are_refused_before_they_are_unpacked(codec: str) -> None:
    body = stream(pa.table({"value": ["a" * (64 << 20)]}), compression=codec)
    with pytest.raises(InvalidRequest, match="Content-Encoding"):
        columns_of_arrow(body, LIMITS, None, None)


def test_offsets_that_point_outside_are_malformed() -> None:
    good = stream(pa.table({"value": ["abcdefg" * 11]}))
    offsets = (0).to_bytes(4, "little") + (77).to_bytes(4, "little")
    at = good.rindex(offsets)  # the first one stands in the header: place and size of a buffer
    wild = good[: at + 4] + (1 << 30).to_bytes(4, "little") + good[at + 8 :]
    with pytest.raises(MalformedBody):
        columns_of_arrow(wild, LIMITS, None, None)


def test_text_that_is_not_utf8_is_malformed() -> None:
    good = stream(pa.table({"value": ["unmistakable"]}))
    with pytest.raises(MalformedBody):
        columns_of_arrow(good.replace(b"unmistakable", b"\xff" * 12), LIMITS, None, None)


GOOD = stream(pa.table({"value": ["a", "b"], "key": [b"x", None]}))


@given(st.data())
def test_a_damaged_stream_is_taken_or_refused(data: st.DataObject) -> None:
    body = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)) | st.just(len(body)))
    try:
        rows = columns_of_arrow(bytes(body[:cut]), LIMITS, None, None)
    except LakequeueError as e:
        refused = e
    else:
        assert len(rows.values) == len(rows.partitions) > 0
        return
    assert refused.http_status in {400, 413, 422}


COLUMNS = [name for name in INBOX.arrow.names if name in wire.RECORD_FIELDS]


@pytest.mark.parametrize(
    "hostile", [h for h in hostile_rows(INBOX) if h.column in COLUMNS], ids=lambda h: h.name
)
def test_hostile_columns_are_taken_or_refused(hostile: Hostile) -> None:
    body = stream(hostile.row.select(COLUMNS))
    with contextlib.suppress(LakequeueError):
        request_of(body, "arrow", {}, "t", ROOMY)


ROOMY = Limits(partitions=4, partitioner="crc32", max_record_bytes=2 << 20, max_records=10_000)
PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])


def with_headers(lists: list[int], keys: pa.Array | None = None) -> pa.Table:
    """One record a number, with so many headers."""
    count = sum(lists)
    keys = pa.array([""] * count) if keys is None else keys
    pairs = pa.StructArray.from_arrays([keys, pa.array([b""] * count)], ["key", "value"])
    ends = [sum(lists[:i]) for i in range(len(lists) + 1)]
    headers = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pairs)
    return pa.table({"value": ["x"] * len(lists), "headers": headers})


def test_too_many_headers_are_refused_before_they_take_memory() -> None:
    body = stream(with_headers([0, 200_000]))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest, match="record 1: headers are not valid"):
            columns_of_arrow(body, ROOMY, None, None)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("kind", [pa.list_(PAIR), pa.map_(pa.large_string(), pa.string())])
def test_headers_of_some_records_and_of_none(kind: pa.DataType) -> None:
    given = [None, [("a", b"x"), ("b", None)], [], [("a", b"y")]]
    if pa.types.is_list(kind):
        lists = [rows and [{"key": k, "value": v} for k, v in rows] for rows in given]
        column = pa.array(lists, kind)
    else:
        column = pa.array(given, pa.map_(pa.string(), pa.binary())).cast(kind)
    rows = columns_of_arrow(
        stream(pa.table({"value": ["x"] * 4, "headers": column})), ROOMY, "p", 1
    )
    assert rows.headers == [given[0] or [], *given[1:]]


HEAVY = {
    "headers": with_headers([64] * 500),
    "headers with text": with_headers([64] * 500, pa.array([f"name {n}" for n in range(32_000)])),
    "a wide header": with_headers([1], pa.array(["x" * (1 << 20) + "\U0001f600"])),
    "records": pa.table({"value": pa.nulls(10_000), "key": [b"k"] * 10_000}),
    "wide ids": pa.table({"value": ["x"], "message_id": ["x" * (1 << 20) + "\U0001f600"]}),
    "every column": pa.table(
        {
            "value": [f"value {n}" for n in range(5_000)],
            "key": [f"key {n}" for n in range(5_000)],
            "partition": [3] * 5_000,
            "message_id": [f"id {n}" for n in range(5_000)],
            "timestamp": [1_700_000_000_000_000 + n for n in range(5_000)],
            "deliver_at": [1_800_000_000_000_000 + n for n in range(5_000)],
            "ttl_ms": [1_000_000 + n for n in range(5_000)],
        }
    ),
}


@pytest.mark.parametrize("name", HEAVY)
def test_what_columns_become_is_told_before_they_do(name: str) -> None:
    body = stream(HEAVY[name])
    told: list[int] = []
    tracemalloc.start()
    try:
        with contextlib.suppress(TooLarge, InvalidRequest):
            columns_of_arrow(body, ROOMY, None, None, told.append)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(told) == 1
    assert peak <= told[0]


def test_records_as_they_are_sent_in_arrow_take_little_more_than_their_size() -> None:
    table = pa.table({"value": ["x" * 10_000] * 1_000})
    told: list[int] = []
    columns_of_arrow(stream(table), ROOMY, None, None, told.append)
    assert told[0] < 2 * table.nbytes


def test_empty_batches_take_no_memory() -> None:
    schema = pa.schema([("value", pa.string())])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as out:
        empty = pa.RecordBatch.from_pylist([], schema)
        for _ in range(5_000):
            out.write_batch(empty)
    body = bytes(sink.getvalue())
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest, match="no records"):
            columns_of_arrow(body, LIMITS, None, None)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000
