"""Arrow streams, written without Arrow: what a client without pyarrow sends columns by. Pure.

The streaming format of the Arrow specification: a message with the schema, one with the rows, and
the end. The metadata of a message is a flatbuffer. That of the rows has the same shape whatever the
columns are, so it is packed as it lies; the schema is built field by field, once for each set of
columns.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from struct import Struct, pack, pack_into
from typing import Final, Literal

Kind = Literal["binary", "utf8", "int32"]

_VERSION: Final = 4  # V5 of Arrow's MetadataVersion
_SCHEMA, _ROWS = 1, 3  # of the union MessageHeader
_TYPES: Final[dict[Kind, int]] = {"int32": 2, "binary": 4, "utf8": 5}  # of the union Type
_CONTINUES: Final = b"\xff\xff\xff\xff"
_END: Final = _CONTINUES + b"\0\0\0\0"
_NO_PAD: Final = (b"", b"\0" * 7, b"\0" * 6, b"\0" * 5, b"\0" * 4, b"\0" * 3, b"\0" * 2, b"\0")


class Column:
    """A column without nulls."""

    __slots__ = ("buffers", "kind", "name", "rows")

    def __init__(self, name: str, kind: Kind, rows: int, buffers: Sequence[bytes]) -> None:
        self.name = name
        self.kind: Kind = kind
        self.rows = rows
        self.buffers = buffers


def bytes_column(name: str, kind: Literal["binary", "utf8"], cells: Sequence[bytes]) -> Column:
    """A column of bytes, or of texts that are encoded already; 2 GiB at most."""
    ends = array("i", accumulate(map(len, cells), initial=0))
    return Column(name, kind, len(cells), (b"", _little(ends), b"".join(cells)))


def int_column(name: str, cells: Sequence[int]) -> Column:
    """A column of integers of 32 bits."""
    return Column(name, "int32", len(cells), (b"", _little(array("i", cells))))


def stream_of(columns: Sequence[Column]) -> bytes:
    """A stream with these columns, all as long, in one batch."""
    rows = columns[0].rows
    places: list[int] = []
    body: list[bytes] = []
    size = 0
    for column in columns:
        for buffer in column.buffers:
            pad = _NO_PAD[len(buffer) % 8]
            places += (size, len(buffer))
            body += (buffer, pad)
            size += len(buffer) + len(pad)
    nodes = [number for column in columns for number in (column.rows, 0)]
    schema = _schema(tuple((column.name, column.kind) for column in columns))
    return b"".join((schema, _rows(rows, nodes, places, size), *body, _END))


def _little(cells: array[int]) -> bytes:
    if sys.byteorder == "big":
        cells.byteswap()
    return cells.tobytes()


def _message(metadata: bytes) -> bytes:
    padded = metadata + _NO_PAD[len(metadata) % 8]
    return _CONTINUES + pack("<i", len(padded)) + padded


# -- the rows -----------------------------------------------------------------------------------

_HEAD: Final = Struct(
    "<I"  # 0: the message is at 16
    "6H"  # 4: its fields: version at 16, kind of header at 18, header at 4, length of body at 8
    "iIqhBx"  # 16: the message
    "5H2x"  # 36: the fields of the rows: length at 8, nodes at 4, buffers at 16
    "iIqI"  # 48: the rows
    "I"  # 68: how many nodes
)


def _rows(rows: int, nodes: Sequence[int], places: Sequence[int], size: int) -> bytes:
    """`nodes`: (rows, nulls) of each column; `places`: (offset, bytes) of each buffer."""
    buffers_at = 72 + 8 * len(nodes) + 4
    head = _HEAD.pack(
        16,
        *(12, 20, 16, 18, 4, 8),
        *(12, 48 - 20, size, _VERSION, _ROWS),
        *(10, 20, 8, 4, 16),
        *(12, 68 - 52, rows, buffers_at - 64),
        len(nodes) // 2,
    )
    counts = pack(f"<{len(nodes)}q4xI", *nodes, len(places) // 2)
    return _message(head + counts + pack(f"<{len(places)}q", *places))


# -- the schema ---------------------------------------------------------------------------------


@cache
def _schema(columns: tuple[tuple[str, Kind], ...]) -> bytes:
    built = bytearray(4)
    message = _table(built, {0: ("h", _VERSION), 1: ("B", _SCHEMA), 2: ("I", 0)})
    pack_into("<I", built, 0, message[-1])
    schema = _table(built, {1: ("I", 0)})
    _point(built, message[2], schema[-1])
    fields = _vector(built, len(columns))
    _point(built, schema[1], fields)
    for number, (name, kind) in enumerate(columns):
        field = _table(built, {0: ("I", 0), 2: ("B", _TYPES[kind]), 3: ("I", 0), 5: ("I", 0)})
        _point(built, fields + 4 + 4 * number, field[-1])
        _point(built, field[0], _text(built, name))
        type_ = _table(built, {0: ("i", 32), 1: ("B", 1)} if kind == "int32" else {})
        _point(built, field[3], type_[-1])
        _point(built, field[5], _vector(built, 0))  # no children
    return _message(bytes(built))


def _table(built: bytearray, fields: dict[int, tuple[str, int]]) -> dict[int, int]:
    """Append a table; where each of its fields is, and under -1 where it is itself."""
    slots = max(fields, default=-1) + 1
    places, size = dict.fromkeys(range(slots), 0), 4
    for slot, (kind, _) in sorted(fields.items(), key=lambda one: -Struct(one[1][0]).size):
        places[slot] = size
        size += Struct("<" + kind).size
    _align(built, 4, 4 + 2 * slots)
    begin = len(built)
    built += pack(f"<{2 + slots}H", 4 + 2 * slots, size, *places.values())
    at = len(built)
    built += pack("<i", at - begin) + bytes(size - 4)
    for slot, (kind, value) in fields.items():
        pack_into("<" + kind, built, at + places[slot], value)
    return {slot: at + places[slot] for slot in fields} | {-1: at}


def _align(built: bytearray, to: int, after: int = 0) -> None:
    built += bytes(-(len(built) + after) % to)


def _vector(built: bytearray, length: int) -> int:
    _align(built, 4)
    at = len(built)
    built += pack("<I", length) + bytes(4 * length)
    return at


def _text(built: bytearray, text: str) -> int:
    _align(built, 4)
    at, data = len(built), text.encode()
    built += pack("<I", len(data)) + data + b"\0"
    return at


def _point(built: bytearray, at: int, to: int) -> None:
    pack_into("<I", built, at, to - at)
