"""Rows of `log` as the JSON of a poll's answer, a column at a time. Pure.

Each column becomes the text of its members (`,"offset":7`), and Arrow puts those of a row together:
no object is made of a row, nor of a value that needs no escape. The bytes are those that
`orjson.dumps` makes of `records_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakequeue.records import Format
from lakequeue.wire import format_in_fact, headers_to_json, key_value_to_json
from queue_tables.schema.odd_bytes import headers_of

_SPACE: Final = 0x20
"""JSON escapes the characters below it."""
Piece: TypeAlias = pa.Array | pa.Scalar
"""A member of each row, or one that all rows share; binary."""


def records_text(rows: pa.RecordBatch) -> memoryview:
    """The records of one partition, at least one, with commas between them.

    `rows` have the columns of `consumer_service.reading.columns.SCHEMA`.
    """
    topic, partition = rows["topic"][0].as_py(), rows["partition"][0].as_py()
    place = orjson.dumps({"topic": topic, "partition": partition})
    pieces: list[Piece] = [
        _same(place[:-1] + b',"offset":'),
        _digits(rows["offset"]),
        _key_or_value(rows, "key"),
        _key_or_value(rows, "value"),
        _headers(rows["headers"]),
        _same(b',"timestamp":'),
        _digits(rows["timestamp"].cast(pa.int64())),
        _text(b',"message_id":', rows["message_id"]),
        _text(b',"attempt":1,"receipt":', rows["receipt"]),
        _same(b"},"),
    ]
    return memoryview(_data(pc.binary_join_element_wise(*pieces, _same(b""))))[:-1]


def _digits(column: pa.Array) -> pa.Array:
    return column.cast(pa.string()).cast(pa.binary())


def _same(text: bytes) -> pa.Scalar:
    return pa.scalar(text, pa.binary())


def _data(texts: pa.Array) -> pa.Buffer:
    """The bytes of all values, one after the other."""
    begins = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    data = texts.buffers()[2]
    return pa.py_buffer(b"") if data is None else data[int(begins[0]) : int(begins[-1])]


def _key_or_value(rows: pa.RecordBatch, name: Literal["key", "value"]) -> Piece:
    column, formats = rows[name], rows[f"{name}_format"].to_numpy()
    if column.null_count == len(column):
        return _same(f',"{name}":null'.encode())
    before = f',"{name}":'.encode()
    if not column.null_count and (formats == formats[0]).all():
        if formats[0] == Format.TEXT and (texts := _texts(before, column)) is not None:
            return texts
        if formats[0] == Format.JSON and all(map(_is_json, column.to_pylist())):
            return _members(before, column)
    return _each(partial(key_value_to_json, name), column.to_pylist(), formats.tolist())


def _is_json(data: bytes) -> bool:
    return format_in_fact(data, Format.JSON) == Format.JSON


def _headers(column: pa.Array) -> Piece:
    if not len(column.flatten()):
        return _same(b',"headers":[]')
    return _each(lambda headers: {"headers": headers_to_json(headers)}, headers_of(column))


def _text(before: bytes, column: pa.Array) -> Piece:
    """Members of a column of texts, of which some may be missing."""
    if column.null_count == len(column):
        return _same(before + b"null")
    if not column.null_count and (texts := _texts(before, column.cast(pa.binary()))) is not None:
        return texts
    return _members(before, pa.array([orjson.dumps(text) for text in column.to_pylist()]))


def _each(member: Callable[..., dict[str, Any]], *columns: Sequence[Any]) -> pa.Array:
    """Members that are made one by one: of values that have to be read, or escaped."""
    made = map(member, *columns)
    return pa.array([b"," + orjson.dumps(one)[1:-1] for one in made], pa.binary())


def _members(before: bytes, values: pa.Array, after: bytes = b"") -> pa.Array:
    return pc.binary_join_element_wise(_same(before), values, _same(after), _same(b""))


def _texts(before: bytes, column: pa.Array) -> pa.Array | None:
    """Members that are texts; None: not all are UTF-8."""
    try:
        texts = column.cast(pa.string())
    except pa.ArrowInvalid:
        return None
    if _needs_no_escape(column):
        return _members(before + b'"', column, b'"')
    return _members(before, pa.array([orjson.dumps(text) for text in texts.to_pylist()]))


def _needs_no_escape(column: pa.Array) -> bool:
    data = _data(column)
    if not data.size:
        return True
    found = np.frombuffer(data, np.uint8)
    return int(found.min()) >= _SPACE and not bool((found == 0x22).any() | (found == 0x5C).any())
