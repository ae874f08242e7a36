"""Rows that no producer of ours would write, generated from a table's declaration.

For each column, and for each field within a column, every value of its kind that a reader may trip
over: text that is not UTF-8, nulls, the ends of the number range, times that `datetime` does not
know, names that are there twice, nothing and a megabyte. A column that is declared is covered.

Arrow does not check what it is given here, and Parquet keeps it, as a foreign writer's file does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from queue_tables.delta.columns import Table
from queue_tables.schema.schemas import GROUP_OFFSETS, INBOX, JOURNAL, LOG

MEBIBYTE = 1 << 20
NOT_UTF8: Mapping[str, bytes] = {
    "not UTF-8": b"\xff\xfe",
    "Latin-1": b"caf\xe9",
    "cut within a character": b"\xe2\x82",
    "a lone surrogate": b"\xed\xa0\x80",
}
"""Texts that are none: what is in them is bytes."""
_TEXTS: Mapping[str, bytes] = {
    **NOT_UTF8,
    "empty": b"",
    "a zero byte": b"a\x00b",
    "a path": b"../../up",
    "1 MiB": b"x" * MEBIBYTE,
}
_BINARIES: Mapping[str, bytes] = {"empty": b"", "not UTF-8": b"\xff\xfe", "1 MiB": b"x" * MEBIBYTE}
_YEAR_10000 = 253_402_300_800_000_000
_TIMES = {
    "the lowest": -(1 << 63),
    "before year 1": -62_135_596_800_000_001,
    "before 1970": -1,
    "the last of year 9999": _YEAR_10000 - 1,
    "year 10000": _YEAR_10000,
    "the highest": (1 << 63) - 1,
}
_TIME = 1_700_000_000_000_000
_GOOD: Mapping[str, Mapping[str, Any]] = {
    INBOX.name: {
        "topic_id": b"t1",
        "partition": 0,
        "key_format": 0,
        "value_format": 0,
        "row": 0,
        "producer_id": None,
        "producer_epoch": None,
        "sequence": None,
        "consumed": None,
        "deliver_at": None,
        "expires_at": None,
        "request": b"0",
    },
    LOG.name: {
        "topic": b"orders",
        "topic_id": b"t1",
        "partition": 0,
        "key_format": 0,
        "value_format": 0,
        "row": 0,
        "offset": 0,
        "deliver_at": None,
        "expires_at": None,
    },
    JOURNAL.name: {"kind": b"committed", "topic_id": b"t1", "partition": 0, "end_offset": None},
    GROUP_OFFSETS.name: {"mode": b"queue", "topic_id": b"t1", "partition": 0, "options": b"{}"},
}
"""What differs from the default of its kind in a row that is sound; text as bytes."""


class Hostile(NamedTuple):
    """One row, sound but for one thing."""

    name: str
    """Column (and field) and what is wrong, for a test's id: `headers.key: Latin-1`."""
    column: str
    row: pa.Table
    """All columns as declared."""


def hostile_rows(declared: Table, good: Mapping[str, Any] | None = None) -> list[Hostile]:
    """Every hostile row of a table. `good`: values of the columns that are sound."""
    sound = _sound(declared, good)
    return [
        Hostile(f"{f.name}{name}", f.name, unchecked(declared, [{**sound, f.name: value}]))
        for f in declared.arrow
        for name, value in _bad_values(f.type, sound[f.name])
    ]


def sound_rows(declared: Table, count: int, good: Mapping[str, Any] | None = None) -> pa.Table:
    """`count` rows that are sound, all alike."""
    return unchecked(declared, [_sound(declared, good)] * count)


def unchecked(declared: Table, rows: list[dict[str, Any]]) -> pa.Table:
    """Rows whose text is given as bytes and whose times as microseconds, whatever they are."""
    columns = [
        pa.array([row[f.name] for row in rows], _raw(f.type)).view(f.type) for f in declared.arrow
    ]
    return pa.table(columns, schema=declared.arrow)


def _sound(declared: Table, good: Mapping[str, Any] | None) -> dict[str, Any]:
    given = {**_GOOD.get(declared.name, {}), **(good or {})}
    sound = {f.name: given.get(f.name, _default(f.type)) for f in declared.arrow}
    for name, value in sound.items():
        if isinstance(value, str):
            sound[name] = value.encode()
    return sound


def _raw(kind: pa.DataType) -> pa.DataType:
    """The same layout without its meaning: bytes for text, numbers for times."""
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_list(kind):
        return pa.list_(_raw(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _raw(f.type)) for f in kind])
    return kind


def _default(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return [_default(kind.value_type)]
    if pa.types.is_struct(kind):
        return {f.name: _default(f.type) for f in kind}
    if pa.types.is_timestamp(kind):
        return _TIME
    if pa.types.is_boolean(kind):
        return False
    return 1 if pa.types.is_integer(kind) else b"x"


def _bad_values(kind: pa.DataType, sound: Any) -> Iterator[tuple[str, Any]]:
    yield ": null", None
    if pa.types.is_list(kind):
        yield from _bad_lists(kind.value_type, sound or _default(kind))
    elif pa.types.is_timestamp(kind):
        yield from ((f": {name}", value) for name, value in _TIMES.items())
    elif pa.types.is_integer(kind):
        top = 1 << (kind.bit_width - 1)
        yield from ((f": {n}", n) for n in (-top, -1, top - 1))
    elif pa.types.is_string(kind):
        yield from ((f": {name}", value) for name, value in _TEXTS.items())
    elif pa.types.is_binary(kind):
        yield from ((f": {name}", value) for name, value in _BINARIES.items())


def _bad_lists(element: pa.DataType, sound: list[Any]) -> Iterator[tuple[str, Any]]:
    yield ": empty", []
    yield ": a null element", [None]
    yield ": the same twice", [sound[0], sound[0]]
    yield ": a thousand", [sound[0]] * 1_000
    for f in element:
        for name, value in _bad_values(f.type, sound[0][f.name]):
            yield f".{f.name}{name}", [{**sound[0], f.name: value}]
