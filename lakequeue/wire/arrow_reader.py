"""Arrow streams, read without Arrow: columns of the few types that records have. Pure.

Plain columns alone: no dictionaries, no compressed buffers. A stream that has other things, or
that is damaged, is a `ValueError`. Columns are made into values when somebody asks for them.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
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
    names: list[str] = field(default_factory=list)
    batches: list[dict[str, Column]] = field(default_factory=list)
    """The columns of each batch that has rows."""

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The values of each column, of all batches."""
        return {
            name: [value for batch in self.batches for value in batch[name].values()]
            for name in self.names
        }


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    kind: int
    bits: int
    inner: tuple[_Field, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a batch as it lies in `data`, its buffers at (begin, end)."""

    of: _Field
    count: int
    data: bytes
    validity: tuple[int, int] | None
    """None: no value is missing."""
    buffers: tuple[tuple[int, int], ...]
    inner: tuple[Column, ...]

    def values(self) -> list[Any]:
        """Integers, texts, bytes, lists of pairs, or None. A time is an integer in the unit that
        the schema says. Raises `ValueError`."""
        try:
            values = self._values()
        except _FAULTS as e:
            raise ValueError(f"column {self.of.name} cannot be read: {e!r}") from e
        if len(values) != self.count:
            raise ValueError(f"column {self.of.name} is shorter than it says")
        return self._valid(values, 0)

    def cells(self, begin: int, end: int) -> list[bytes | None]:
        """Some values of a column of bytes, each copied once. Raises `ValueError`."""
        ends, (at, stop) = self._ends(begin, end + 1), self.buffers[1]
        if min(ends) < 0 or at + max(ends) > stop:
            raise ValueError(f"cells of column {self.of.name} lie outside")
        data = self.data
        found = [data[at + first : at + last] for first, last in pairwise(ends)]
        return self._valid(found, begin)

    def is_all(self, text: bytes) -> bool:
        """Whether each value of a column of texts is this one."""
        begin, end = self.buffers[1]
        return (
            self.validity is None
            and end - begin >= len(text) * self.count
            and self._ends(0, self.count + 1)
            == list(range(0, len(text) * self.count + 1, len(text) or 1))
            and self.data[begin : begin + len(text) * self.count] == text * self.count
        )

    def apart(self) -> Column:
        """The same, without what else came with it: for whoever keeps it."""
        parts = [self.data[begin:end] for begin, end in (self.validity or (0, 0), *self.buffers)]
        places, at = [], 0
        for part in parts:
            places.append((at, at + len(part)))
            at += len(part)
        return Column(
            self.of,
            self.count,
            b"".join(parts),
            self.validity and places[0],
            tuple(places[1:]),
            tuple(one.apart() for one in self.inner),
        )

    def _valid(self, values: list[Any], begin: int) -> list[Any]:
        if self.validity is None:
            return values
        data, at = self.data, self.validity[0]
        return [
            value if data[at + (n >> 3)] >> (n & 7) & 1 else None
            for n, value in enumerate(values, begin)
        ]

    def _ints(self, bits: int, begin: int, end: int) -> list[int]:
        cells = array({8: "b", 16: "h", 32: "i", 64: "q"}[bits])
        at, width = self.buffers[0][0], bits // 8
        cells.frombytes(self.data[at + begin * width : at + end * width])
        if sys.byteorder == "big":
            cells.byteswap()
        return cells.tolist()

    def _ends(self, begin: int, end: int) -> list[int]:
        return self._ints(32, begin, end) if self.count else [0]

    def _values(self) -> list[Any]:
        kind, count = self.of.kind, self.count
        if kind in {_INT, _TIMESTAMP}:
            return self._ints(self.of.bits, 0, count)
        if kind == _STRUCT:
            return list(zip(*[one.values() for one in self.inner], strict=True))
        ends = self._ends(0, count + 1)
        if kind == _LIST:
            return _cut(ends, self.inner[0].values())
        begin, end = self.buffers[1]
        cells = self.data[begin:end]
        return _texts(ends, cells) if kind == _UTF8 else _cut(ends, cells)


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
            found.names = [one.name for one in fields]
            for pair in _tables(data, header, 2):
                name, text = (_text(data, _to(data, _must(data, pair, slot))) for slot in (0, 1))
                found.metadata[name] = text
        elif kind == _ROWS:
            if _field(data, header, 3) is not None:
                raise ValueError("compressed buffers")
            _add_batch(found, _Reading(data, body, header), fields)
        else:
            raise ValueError(f"a message of kind {kind}")


def _add_batch(found: Stream, reading: _Reading, fields: Sequence[_Field]) -> None:
    columns = [reading.column(one) for one in fields]
    if len({column.count for column in columns}) > 1:
        raise ValueError("columns differ in length")
    if columns and columns[0].count:
        found.batches.append(dict(zip(found.names, columns, strict=True)))


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

    def column(self, of: _Field) -> Column:
        """The next column."""
        count, nulls = next(self._nodes)
        if count < 0:
            raise ValueError(f"column {of.name} is shorter than nothing")
        validity = self._place(-(-count // 8) if nulls else 0)
        sizes: tuple[int, ...] = ()
        if of.kind in {_INT, _TIMESTAMP}:
            sizes = (count * of.bits // 8,)
        elif of.kind in {_BINARY, _UTF8}:
            sizes = (4 * (count + 1) if count else 0, 0)
        elif of.kind == _LIST:
            sizes = (4 * (count + 1) if count else 0,)
        elif of.kind != _STRUCT:
            raise ValueError(f"column {of.name} is of a type that is not read here")
        buffers = tuple(map(self._place, sizes))
        inner = tuple(map(self.column, of.inner))
        return Column(of, count, self._data, validity if nulls else None, buffers, inner)

    def _place(self, least: int) -> tuple[int, int]:
        """Where the next buffer lies, which has so many bytes at least."""
        offset, length = next(self._buffers)
        begin = self._body + offset
        if offset < 0 or length < least or begin + length > len(self._data):
            raise ValueError("a buffer lies outside, or is shorter than it says")
        return begin, begin + length


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
