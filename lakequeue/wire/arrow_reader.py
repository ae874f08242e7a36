"""Arrow streams, read without Arrow: columns of the few types that records have. Pure.

Plain columns alone: no dictionaries, no compressed buffers. A stream that has other things, or
that is damaged, is a `ValueError`.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from struct import unpack_from
from typing import Any, Final

_SCHEMA, _ROWS = 1, 3  # of the union MessageHeader
_INT, _BINARY, _UTF8, _TIMESTAMP, _LIST, _STRUCT = 2, 4, 5, 10, 12, 13  # of the union Type
_MARK: Final = 0xFFFFFFFF
_FAULTS: Final = (
    struct.error, IndexError, KeyError, StopIteration, TypeError, OverflowError, RecursionError
)  # fmt: skip


@dataclass(slots=True)
class Stream:
    """What a stream holds."""

    metadata: dict[str, str] = field(default_factory=dict)
    """Of its schema."""
    columns: dict[str, list[Any]] = field(default_factory=dict)
    """The values of each column, of all batches: integers, texts, bytes, lists of pairs, or None.
    A time is an integer in the unit that the schema says."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    kind: int
    bits: int
    inner: tuple[_Field, ...]


def read_stream(data: bytes) -> Stream:
    """The columns of a stream. Raises `ValueError`."""
    try:
        return _read(data)
    except _FAULTS as e:
        raise ValueError(f"no Arrow stream that is read here: {e!r}") from e


def _read(data: bytes) -> Stream:
    found = Stream()
    fields: tuple[_Field, ...] = ()
    at = 0
    while True:
        mark, size = unpack_from("<Ii", data, at)
        if mark != _MARK or size < 0:
            raise ValueError("a message begins otherwise")
        if size == 0:
            return found
        begin = at + 8
        message = begin + _u32(data, begin)
        kind, header = data[_must(data, message, 1)], _to(data, _must(data, message, 2))
        length = _field(data, message, 3)
        body = begin + size
        at = body + (0 if length is None else unpack_from("<q", data, length)[0])
        if not body <= at <= len(data):
            raise ValueError("a message ends outside")
        if kind == _SCHEMA:
            fields = tuple(map(_Reading(data).field_at, _tables(data, header, 1)))
            found.columns = {one.name: [] for one in fields}
            for pair in _tables(data, header, 2):
                name, text = (_text(data, _to(data, _must(data, pair, slot))) for slot in (0, 1))
                found.metadata[name] = text
        elif kind == _ROWS:
            if _field(data, header, 3) is not None:
                raise ValueError("compressed buffers")
            reading = _Reading(data, body, header)
            for one in fields:
                found.columns[one.name] += reading.column(one)
        else:
            raise ValueError(f"a message of kind {kind}")


class _Reading:
    """Of one message."""

    def __init__(self, data: bytes, body: int = 0, rows: int | None = None) -> None:
        self._data = data
        self._body = body
        self._nodes: Iterator[tuple[int, ...]] = iter(())
        self._buffers: Iterator[tuple[int, ...]] = iter(())
        if rows is not None:
            self._nodes, self._buffers = (self._structs(rows, slot) for slot in (1, 2))

    def _structs(self, rows: int, slot: int) -> Iterator[tuple[int, ...]]:
        vector = _to(self._data, _must(self._data, rows, slot))
        count = _u32(self._data, vector)
        whole = self._data[vector + 4 : vector + 4 + 16 * count]
        return struct.iter_unpack("<qq", whole)

    def field_at(self, table: int) -> _Field:
        data = self._data
        if _field(data, table, 4) is not None:
            raise ValueError("a dictionary")
        name = _text(data, _to(data, _must(data, table, 0)))
        kind = data[_must(data, table, 2)]
        type_ = _to(data, _must(data, table, 3))
        bits = _field(data, type_, 0)
        width = 64
        if kind == _INT:
            width = 0 if bits is None else unpack_from("<i", data, bits)[0]
        inner = tuple(map(self.field_at, _tables(data, table, 5)))
        return _Field(name, kind, width, inner)

    # -- columns ----------------------------------------------------------------------------------

    def column(self, of: _Field) -> list[Any]:
        """The values of the next column."""
        count, nulls = next(self._nodes)
        validity = self._next_buffer()
        values = self._values(of, count)
        if len(values) != count:
            raise ValueError(f"column {of.name} is shorter than it says")
        if not nulls:
            return values
        return [v if validity[i >> 3] >> (i & 7) & 1 else None for i, v in enumerate(values)]

    def _next_buffer(self) -> bytes:
        offset, length = next(self._buffers)
        begin = self._body + offset
        if offset < 0 or length < 0 or begin + length > len(self._data):
            raise ValueError("a buffer lies outside")
        return self._data[begin : begin + length]

    def _values(self, of: _Field, count: int) -> list[Any]:
        if of.kind in {_INT, _TIMESTAMP}:
            return _ints(self._next_buffer(), of.bits, count)
        if of.kind in {_BINARY, _UTF8}:
            ends, cells = (
                _ints(self._next_buffer(), 32, count + 1 if count else 0),
                self._next_buffer(),
            )
            return _texts(ends, cells) if of.kind == _UTF8 else _cut(ends, cells)
        if of.kind == _LIST:
            ends = _ints(self._next_buffer(), 32, count + 1 if count else 0)
            (inner,) = of.inner
            return _cut(ends, self.column(inner))
        if of.kind == _STRUCT:
            return list(zip(*[self.column(one) for one in of.inner], strict=True))
        raise ValueError(f"column {of.name} is of a type that is not read here")


def _ints(buffer: bytes, bits: int, count: int) -> list[int]:
    cells = array({8: "b", 16: "h", 32: "i", 64: "q"}[bits])
    cells.frombytes(buffer[: count * bits // 8])
    if sys.byteorder == "big":
        cells.byteswap()
    return cells.tolist()


def _cut(ends: list[int], cells: Any) -> list[Any]:
    return [cells[begin:end] for begin, end in pairwise(ends)]


def _texts(ends: list[int], cells: bytes) -> list[str]:
    if cells.isascii():
        return _cut(ends, cells.decode("ascii"))
    return [cells[begin:end].decode() for begin, end in pairwise(ends)]


# -- flatbuffers --------------------------------------------------------------------------------


def _u32(data: bytes, at: int) -> int:
    return int(unpack_from("<I", data, at)[0])


def _to(data: bytes, at: int) -> int:
    """Where an offset leads."""
    return at + _u32(data, at)


def _field(data: bytes, table: int, slot: int) -> int | None:
    """Where a table's field is; None: it has its default."""
    fields = table - unpack_from("<i", data, table)[0]
    at = 4 + 2 * slot
    if fields < 0 or at + 2 > unpack_from("<H", data, fields)[0]:
        return None
    offset = unpack_from("<H", data, fields + at)[0]
    return table + offset if offset else None


def _must(data: bytes, table: int, slot: int) -> int:
    at = _field(data, table, slot)
    if at is None:
        raise ValueError("a field is missing")
    return at


def _tables(data: bytes, table: int, slot: int) -> list[int]:
    """Where the tables of a vector are."""
    at = _field(data, table, slot)
    if at is None:
        return []
    vector = _to(data, at)
    return [_to(data, vector + 4 + 4 * n) for n in range(_u32(data, vector))]


def _text(data: bytes, at: int) -> str:
    return data[at + 4 : at + 4 + _u32(data, at)].decode()
