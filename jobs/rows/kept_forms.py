"""What is kept of a row that cannot be written into `rejects` as it is. Pure.

Three forms, each with less in it, for the case that the one before cannot be written either: the
whole row as bytes; the begin of its value, with length and digest; length and digest alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from jobs.rows.blame import is_of_the_rows

MOST_BYTES = 256 << 20
"""Of a row that is kept whole."""
CUT_BYTES = 64 << 10
"""Of a value that is cut."""


class Form(NamedTuple):
    """What stands in the place of a row's value, and what is said of it."""

    value: bytes | None
    said: str


def forms_of(row: pa.Table | None) -> Iterator[Form]:
    """The forms of a row of an inbox file (a table of one row); None: it could not be read."""
    if row is None:
        yield Form(None, "nothing: the row could not be read")
        return
    value = row["value"][0]
    data = memoryview(value.as_buffer() if value.is_valid else b"")
    digest = f"{len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}"
    stream = _stream_of(row)
    if stream is not None:
        yield Form(stream, f"an Arrow stream of the whole row (its value has {digest})")
    shown = bytes(data[:CUT_BYTES])
    yield Form(shown, f"the first {len(shown)} bytes of its value (of {digest})")
    yield Form(None, f"nothing but the length of its value ({digest})")


def bytes_of(row: pa.Table) -> int:
    """Of key, value and headers of a table of one row, about; more in one that is a slice."""
    return sum(int(row[name].nbytes) for name in ("key", "value", "headers"))


def _stream_of(row: pa.Table) -> bytes | None:
    if bytes_of(row) > MOST_BYTES:
        return None
    sink = pa.BufferOutputStream()
    try:
        with pa.ipc.new_stream(sink, row.schema) as stream:
            stream.write_table(row)
    except Exception as error:
        if not is_of_the_rows(error):
            raise
        return None
    data: bytes = sink.getvalue().to_pybytes()
    return data
