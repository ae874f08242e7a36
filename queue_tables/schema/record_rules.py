"""What a row must be, whoever wrote it: one set of rules, from the declaration of its table. Pure.

Judged by Spark's sink, where a fault refuses the write, and again in the order job, as if there
were no gate: any process with the storage's key can put a file into a shard. The HTTP gate has
rules of its own, for requests; a test makes sure that what it takes is sound here.

Sound rows, nearly all, cost a few skips whole columns; only a column in which one is not sound is
gone through row by row.

Keys and values are bytes, and bytes are always sound: what a record says of itself (text, JSON) is
a promise of its producer, kept at the gates. Text is what tables, marks and engines work with, so
it has to be UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakequeue.errors import InvalidName
from lakequeue.records import checked_name
from lakequeue.wire.limits import MAX_WHOLE
from queue_tables.delta.columns import Column, Table

FIRST_MICROS: Final = -62_135_596_800_000_000
"""Year 1: Python, Spark and the statistics of files know no time before it."""
LAST_MICROS: Final = 253_402_300_799_999_000
"""The last millisecond of year 9999; statistics are rounded up to a millisecond."""

Mask = npt.NDArray[np.bool_]


class Fault(NamedTuple):
    """Why a row is not sound."""

    column: str
    why: str

    def __str__(self) -> str:
        return f"{self.column} {self.why}"


Faults = dict[int, Fault]
"""Row → its first fault, in the order of the declaration; only rows that have one."""


def faults_of(rows: pa.Table, declared: Table) -> Faults:
    """The rows that are not sound, as far as `rows` has columns of `declared`, of its types."""
    found: Faults = {}
    for column in declared.columns:
        if column.name in rows.schema.names:
            _judge(column, rows[column.name], found)
    return found


def escaped(rows: pa.Table) -> pa.Table:
    """The same rows with text that every engine reads: bytes that are no UTF-8 as `\\xff`.

    Times that no engine knows are null. Keys, values and header values stay as they are.
    """
    columns = [_readable(rows[name]) for name in rows.schema.names]
    return pa.table(columns, names=rows.schema.names)


def first_not_text(values: pa.Array | pa.ChunkedArray) -> tuple[int, str] | None:
    """The first row of a column whose text, or that of a header's name, is not UTF-8, and why."""
    column = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    if _is_valid_text(column):
        return None
    fault = _headers_fault if pa.types.is_list(column.type) else _text_fault
    for row, value in enumerate(_raw(column).to_pylist()):
        why = None if value is None else fault(value)
        if why is not None:
            return row, why
    return None


def whole_text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of text, null where it is no UTF-8."""
    if _is_valid_text(values):
        return values
    sound = [v if v is None or _text_fault(v) is None else None for v in _raw(values).to_pylist()]
    return _as_text(pa.chunked_array([pa.array(sound, pa.binary())], pa.binary()))


# -- a column's rules ---------------------------------------------------------------------------


def _judge(column: Column, values: pa.ChunkedArray, found: Faults) -> None:
    if column.required and values.null_count:
        _note(found, column, "is null", np.asarray(values.is_null()))
    if values.null_count == len(values):
        return
    if column.kind == "string":
        _judge_text(column, values, found)
    elif column.kind in {"int", "long"}:
        _judge_range(column, values, column.least, column.most, found)
    elif column.kind == "timestamp":
        numbers = values.cast(pa.int64())
        _judge_range(column, numbers, FIRST_MICROS, LAST_MICROS, found)
    elif column.kind == "headers" and not _is_valid_text(values):
        _judge_each(column, values, _headers_fault, found)
    elif column.kind == "headers":
        _judge_header_nulls(column, values, found)


def _judge_text(column: Column, values: pa.ChunkedArray, found: Faults) -> None:
    if not _is_valid_text(values):
        _judge_each(column, values.cast(pa.binary()), _text_fault, found)
    if column.least is not None or column.most is not None:
        # Bytes are at least as many as characters: only what is long in bytes is counted.
        lengths = pc.binary_length(values)
        bounds = pc.min_max(lengths).as_py()
        most = column.most if column.most is not None else bounds["max"]
        if bounds["min"] < (column.least or 0) or bounds["max"] > most:
            _judge_each(column, values.cast(pa.binary()), _length_fault(column), found)
    if column.shape == "consumed":
        _judge_each(column, values.cast(pa.binary()), _consumed_fault, found)


def _judge_range(
    column: Column, values: pa.ChunkedArray, least: int | None, most: int | None, found: Faults
) -> None:
    bounds = pc.min_max(values).as_py()
    for bound, limit, beyond, word in (
        (bounds["min"], least, pc.less, "below"),
        (bounds["max"], most, pc.greater, "above"),
    ):
        if limit is None or (bound >= limit if word == "below" else bound <= limit):
            continue
        wrong = np.asarray(pc.fill_null(beyond(values, limit), False))
        for row in np.flatnonzero(wrong).tolist():
            found.setdefault(row, Fault(column.name, f"is {values[row].as_py()}, {word} {limit}"))


def _judge_each(
    column: Column,
    values: pa.ChunkedArray,
    fault: Callable[[Any], str | None],
    found: Faults,
) -> None:
    """Row by row; `fault` is asked once of values that follow each other and are the same."""
    raw = _raw(values).to_pylist()
    last, why = None, None
    for row, value in enumerate(raw):
        if value is None:
            continue
        if value != last:
            last, why = value, fault(value)
        if why is not None:
            found.setdefault(row, Fault(column.name, why))


def _note(found: Faults, column: Column, why: str, wrong: Mask) -> None:
    for row in np.flatnonzero(wrong).tolist():
        found.setdefault(row, Fault(column.name, why))


def _text_fault(value: bytes) -> str | None:
    try:
        value.decode()
    except UnicodeDecodeError as error:
        return f"is not UTF-8 (byte {error.start})"
    return None


def _length_fault(column: Column) -> Callable[[bytes], str | None]:
    least, most = column.least or 0, column.most

    def fault(value: bytes) -> str | None:
        count = len(value.decode(errors="replace"))
        if count < least or (most is not None and count > most):
            return f"has {count} characters, {least} to {most} are allowed"
        return None

    return fault


def _headers_fault(headers: list[dict[str, bytes | None] | None]) -> str | None:
    for at, header in enumerate(headers):
        if header is None or header["key"] is None:
            return f"has none or no name at {at}"
        why = _text_fault(header["key"])
        if why is not None:
            return f"has a name that {why} at {at}"
    return None


def _judge_header_nulls(column: Column, values: pa.ChunkedArray, found: Faults) -> None:
    for chunk in values.chunks:
        flat = chunk.flatten()
        if flat.null_count or (len(flat) and flat.field("key").null_count):
            _judge_each(column, values, _headers_fault, found)
            return


_CONSUMED_LEAST: Final[Mapping[str, int]] = {
    "partition": 0,
    "from_offset": 0,
    "next_offset": 1,
    "epoch": 0,
    "generation": 0,
}
_CONSUMED_OPTIONAL: Final = frozenset({"epoch", "generation"})


def _consumed_fault(text: bytes) -> str | None:
    """What is wrong with the JSON of `lakequeue.wire.Consumed`, as it is stored (by topic id)."""
    try:
        said = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return f"is not JSON: {error}"
    if not isinstance(said, dict):
        return "is not a JSON object"
    for name in ("group", "topic_id"):
        given = said.get(name)
        try:
            checked_name(given if isinstance(given, str) else "", name)
        except InvalidName:
            return f"names no {name}"
    for name, least in _CONSUMED_LEAST.items():
        number = said.get(name, 0 if name in _CONSUMED_OPTIONAL else None)
        if type(number) is not int or not least <= number <= MAX_WHOLE:
            return f"has no valid {name}"
    if said["next_offset"] <= said["from_offset"]:
        return "ends before it begins"
    return None


# -- types --------------------------------------------------------------------------------------


def _is_valid_text(values: pa.ChunkedArray) -> bool:
    """Whether all text in a column is UTF-8, that of its fields, too."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _raw(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text as bytes: what is none cannot be made a Python string."""
    kind = _raw_type(values.type)
    return (
        values
        if kind == values.type
        else pa.chunked_array([chunk.view(kind) for chunk in values.chunks], kind)
    )


def _raw_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_list(kind):
        return pa.list_(_raw_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _raw_type(f.type)) for f in kind])
    return kind


def _as_text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([chunk.view(pa.string()) for chunk in values.chunks], pa.string())


def _readable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(values.type):
        numbers = values.cast(pa.int64())
        known = pc.and_(
            pc.greater_equal(numbers, FIRST_MICROS), pc.less_equal(numbers, LAST_MICROS)
        )
        return pc.if_else(known, numbers, pa.scalar(None, pa.int64())).cast(values.type)
    if _raw_type(values.type) == values.type or _is_valid_text(values):
        return values
    shown = [_shown(value, values.type) for value in _raw(values).to_pylist()]
    return pa.chunked_array([pa.array(shown, values.type)], values.type)


def _shown(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_string(kind):
        return value.decode(errors="backslashreplace")
    if pa.types.is_list(kind):
        return [_shown(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {f.name: _shown(value[f.name], f.type) for f in kind}
    return value
