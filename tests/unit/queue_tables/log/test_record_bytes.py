"""Bytes of rows: keys, values and headers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from queue_tables.log.record_bytes import bytes_of, bytes_up_to
from queue_tables.schema.schemas import LOG
from tests.support.data.rows import rows_of

DATA = st.none() | st.binary(max_size=5)
HEADERS = st.none() | st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=3), "value": DATA}), max_size=3
)
ROWS = st.lists(st.fixed_dictionaries({"key": DATA, "value": DATA, "headers": HEADERS}), max_size=6)


def rows_with(given_rows: list[dict[str, Any]]) -> pa.Table:
    """Rows of the log with these columns."""
    names = ("key", "value", "headers")
    return rows_of(LOG, {name: [row[name] for row in given_rows] for name in names}, ())


def size_of(row: dict[str, Any]) -> int:
    """Counted by hand."""
    headers = sum(len(h["key"].encode()) + len(h["value"] or b"") for h in row["headers"] or [])
    return len(row["key"] or b"") + len(row["value"] or b"") + headers


@given(ROWS, ROWS, st.integers(0, 3), st.integers(0, 9))
def test_keys_values_and_headers_count(
    first: list[dict[str, Any]], second: list[dict[str, Any]], begin: int, count: int
) -> None:
    table = pa.concat_tables([rows_with(first), rows_with(second)]).slice(begin, count)
    some = [*first, *second][begin : begin + count]
    assert bytes_up_to(table).tolist() == [
        sum(map(size_of, some[: n + 1])) for n in range(len(some))
    ]
    assert bytes_of(table) == sum(map(size_of, some))


def test_columns_that_are_missing_count_nothing() -> None:
    table = rows_with([{"key": b"abc", "value": b"de", "headers": [{"key": "f", "value": b"g"}]}])
    assert bytes_of(table.select(["value", "offset"])) == 2
    assert bytes_up_to(table.select(["offset"])).tolist() == [0]
    assert bytes_up_to(table.select(["headers"])).tolist() == [2]
