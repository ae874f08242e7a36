"""Arrow streams written without Arrow, read by Arrow."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakequeue.wire.arrow_stream import bytes_column, int_column, stream_of

INT_32 = st.integers(-(1 << 31), (1 << 31) - 1)


def read(stream: bytes) -> pa.Table:
    """As a node reads it: checked in full."""
    with pa.ipc.open_stream(pa.BufferReader(stream)) as batches:
        (batch,) = batches
        batch.validate(full=True)
        return pa.Table.from_batches([batch])


@given(st.lists(st.tuples(st.binary(max_size=20), st.text(max_size=20), INT_32), min_size=1))
def test_arrow_reads_what_was_written(rows: list[tuple[bytes, str, int]]) -> None:
    values, texts, numbers = (list(column) for column in zip(*rows, strict=True))
    table = read(
        stream_of(
            [
                bytes_column("value", "binary", values),
                bytes_column("key", "utf8", [text.encode() for text in texts]),
                int_column("partition", numbers),
            ]
        )
    )
    assert table.schema.types == [pa.binary(), pa.string(), pa.int32()]
    assert table.to_pydict() == {"value": values, "key": texts, "partition": numbers}


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_any_number_of_columns(count: int) -> None:
    names = [f"a column with the number {n}" for n in range(count)]
    table = read(stream_of([int_column(name, [1, n]) for n, name in enumerate(names)]))
    assert table.to_pydict() == {name: [1, n] for n, name in enumerate(names)}


def test_every_buffer_begins_where_arrow_wants_it() -> None:
    stream = stream_of([bytes_column("v", "binary", [b"x" * 3]), int_column("n", [5])])
    assert len(stream) % 8 == 0
    (batch,) = pa.ipc.open_stream(pa.BufferReader(stream))
    start = pa.py_buffer(stream).address
    for column in batch.columns:
        assert all((b.address - start) % 8 == 0 for b in column.buffers() if b is not None)
