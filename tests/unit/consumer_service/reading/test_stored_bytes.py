"""Whatever a column of `log` can hold is delivered: no stored record is undecodable."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest

from consumer_service.reading.encode import new_records_of, plain_records
from lakequeue.wire import UNDECODABLE
from queue_tables.schema.schemas import LOG
from tests.support.data.hostile_rows import hostile_rows, sound_rows

ODD: dict[str, bytes] = {
    "deep": b"[" * 3_000 + b"]" * 3_000,
    "deep objects": b'{"a":' * 2_000 + b"1" + b"}" * 2_000,
    "no number": b"NaN",
    "many digits": b"1" * 5_000,
    "beyond a double": b"1e999999",
    "half a pair": b'"\\ud800"',
    "a mark in front": b"\xef\xbb\xbf1",
    "empty": b"",
    "blanks": b" ",
    "zero": b"\x00",
    "two values": b"1 2",
    "a name twice": b'{"a":1,"a":2}',
    "overlong": b'"\xc0\x80"',
    "surrogates": b'"\xed\xa0\x80"',
    "line ends": "\u2028".encode(),
}
FORMATS = (-1, 0, 1, 2, 3, None, 2**31 - 1)
HEADERS: list[Any] = [
    None,
    [None],
    [{"key": None, "value": b"x"}],
    [{"key": "", "value": None}],
    [{"key": "a" * 100_000, "value": bytes(10)}],
    [{"key": "a", "value": b"1"}] * 10_000,
]


def is_delivered(row: pa.Table) -> None:
    [record] = plain_records(row)
    assert UNDECODABLE not in record
    orjson.loads(orjson.dumps(record))
    new_records_of(row, keys=True)


@pytest.mark.parametrize("hostile", hostile_rows(LOG), ids=lambda h: h.name)
def test_what_is_hostile_to_a_column(hostile: Any) -> None:
    is_delivered(hostile.row)


@pytest.mark.parametrize("name", LOG.file_arrow.names)
def test_nothing_in_a_column(name: str) -> None:
    row = sound_rows(LOG, 1, {})
    at = row.schema.get_field_index(name)
    kind = row.schema.field(at).type
    is_delivered(row.set_column(at, pa.field(name, kind), pa.nulls(1, kind)))


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("column", ["key", "value"])
def test_bytes_that_are_not_what_their_format_says(odd: str, column: str) -> None:
    for said in FORMATS:
        is_delivered(sound_rows(LOG, 1, {column: ODD[odd], f"{column}_format": said}))


@pytest.mark.parametrize("headers", HEADERS, ids=range(len(HEADERS)))
def test_headers(headers: Any) -> None:
    is_delivered(sound_rows(LOG, 1, {"headers": headers}))
