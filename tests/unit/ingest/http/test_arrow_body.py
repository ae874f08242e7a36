"""Arrow streams: typed columns in, and nothing trusted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.http.arrow_body import columns_of_arrow
from lakequeue.errors import InvalidRequest, LakequeueError, MalformedBody, TooLarge
from lakequeue.records import Format
from queue_rules.produce.rows import NO_PARTITION, NO_TIMESTAMP, Rows
from queue_rules.produce.validation import Limits

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
