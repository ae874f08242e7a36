"""Text columns whose bytes may be anything: read so that no row stops those beside it. Pure.

Arrow does not check that a `string` is UTF-8, and `to_pylist` fails for the whole column if one is
not. What is not UTF-8 has one meaning here: each byte that does not belong is written as `\\xNN`.
"""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa

Headers: TypeAlias = list[tuple[str, bytes | None]]

_RAW_HEADERS = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))


def text_of(data: bytes) -> str:
    """UTF-8 as text; a byte that is none is escaped, as `\\xff`."""
    return data.decode("utf-8", "backslashreplace")


def texts_of(column: pa.ChunkedArray | pa.Array) -> list[str | None]:
    """The values of a text column."""
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        raw = column.cast(pa.binary()).to_pylist()
        return [None if data is None else text_of(data) for data in raw]


def headers_of(column: pa.ChunkedArray | pa.Array) -> list[Headers]:
    """Names and values of a column of headers, in order; a missing name is the empty one."""
    if column.null_count == len(column):
        return [[]] * len(column)
    try:
        rows = column.to_pylist()
    except UnicodeDecodeError:
        return [
            [(text_of(h["key"] or b""), h["value"]) for h in headers or () if h is not None]
            for headers in column.cast(_RAW_HEADERS).to_pylist()
        ]
    return [
        [(h["key"] or "", h["value"]) for h in headers or () if h is not None] for headers in rows
    ]
