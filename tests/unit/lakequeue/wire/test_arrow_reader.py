"""Arrow streams read without Arrow, written by Arrow."""

from __future__ import annotations

import contextlib
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakequeue.wire.arrow_reader import read_stream

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("format", pa.int8()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("timestamp", pa.timestamp("us", tz="UTC")),
    ],
    metadata={"lakequeue": '{"poll": 1, "ä": 2}'},
)
ROW = st.fixed_dictionaries(
    {
        "topic": st.text(max_size=5),
        "partition": st.integers(-(1 << 31), (1 << 31) - 1),
        "offset": st.integers(-(1 << 63), (1 << 63) - 1),
        "format": st.integers(0, 2),
        "value": st.none() | st.binary(max_size=20),
        "headers": st.lists(
            st.fixed_dictionaries(
                {"key": st.text(max_size=3), "value": st.none() | st.binary(max_size=3)}
            ),
            max_size=3,
        ),
        "timestamp": st.integers(0, 1 << 50),
    }
)


def stream(*tables: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, tables[0].schema, options=pa.ipc.IpcWriteOptions(**options)
    ) as out:
        for table in tables:
            out.write_table(table)
    return bytes(sink.getvalue())


@given(st.lists(ROW), st.lists(ROW, min_size=1), st.integers(0, 3))
def test_what_arrow_writes_is_read(
    first: list[dict[str, Any]], second: list[dict[str, Any]], cut: int
) -> None:
    whole = [pa.Table.from_pylist(rows, SCHEMA) for rows in (first, second)]
    # A slice begins in the middle of its buffers.
    found = read_stream(stream(whole[0], whole[1].slice(cut)))
    assert found.metadata == {"lakequeue": '{"poll": 1, "ä": 2}'}
    rows = first + second[cut:]
    assert list(found.columns) == SCHEMA.names
    for name in set(SCHEMA.names) - {"headers"}:
        assert found.columns[name] == [row[name] for row in rows]
    assert found.columns["headers"] == [
        [(one["key"], one["value"]) for one in row["headers"]] for row in rows
    ]


def test_a_part_of_a_column_and_a_column_apart() -> None:
    table = pa.table({"a": [b"x", None, b"yz", b""], "t": ["ä", "ä", "ä", "ä"]})
    (batch,) = read_stream(stream(table)).batches
    for column in (batch["a"], batch["a"].apart()):
        assert column.values() == [b"x", None, b"yz", b""]
        assert column.cells(1, 3) == [None, b"yz"]
    assert len(batch["a"].apart().data) < 50 < len(batch["a"].data)
    assert batch["t"].is_all("ä".encode())
    assert not batch["t"].is_all(b"a")


@pytest.mark.parametrize("texts", [["a", "aa"], ["aa", "a"], ["ab", "a"], ["a", None], ["", ""]])
def test_texts_that_differ_are_not_all_the_same(texts: list[str | None]) -> None:
    (batch,) = read_stream(stream(pa.table({"t": texts}))).batches
    assert not batch["t"].is_all((texts[0] or "").encode())


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"a": pa.array(["x"]).dictionary_encode()}),
        pa.table({"a": pa.array([1.5])}),
        pa.table({"a": pa.array(["x"], pa.large_string())}),
    ],
    ids=["dictionary", "float", "large"],
)
def test_what_is_not_read_is_an_error(table: pa.Table) -> None:
    with pytest.raises(ValueError, match=r"dictionary|type"):
        read_stream(stream(table))


def test_compressed_buffers_are_an_error() -> None:
    with pytest.raises(ValueError, match="compressed"):
        read_stream(stream(pa.table({"a": ["x" * 1_000]}), compression="zstd"))


def test_a_message_that_leads_back_to_itself_is_an_error() -> None:
    whole = bytearray(stream(pa.table({"a": ["x"]})))
    whole[4:8] = (-8).to_bytes(4, "little", signed=True)
    with pytest.raises(ValueError, match="begins"):
        read_stream(bytes(whole))


@given(st.data())
def test_a_damaged_stream_is_an_error_or_read(data: st.DataObject) -> None:
    rows = [{"topic": "orders", "partition": 1, "offset": 2, "format": 0, "value": b"xyz"}] * 3
    whole = bytearray(stream(pa.Table.from_pylist(rows, SCHEMA)))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    with contextlib.suppress(ValueError):
        read_stream(damaged)
