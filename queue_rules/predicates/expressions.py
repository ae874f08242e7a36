"""What a predicate consists of, and what it means for one record. Pure.

SQL's logic of three values: True, False, and None for unknown. A record is the group's if the
predicate is True.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

Literal = str | bytes | int | float | bool
Truth = bool | None


class Kind(StrEnum):
    """What the values of a field are, and so what they are compared with."""

    TEXT = "text"
    """Names: compared with text, by code points."""
    BYTES = "bytes"
    """As sent; text in a predicate stands for its UTF-8."""
    NUMBER = "number"
    TIME = "time"
    """Microseconds since 1970 UTC."""
    JSON = "json"
    """Text, number or boolean, as it is; with another type of literal nothing is known."""


COLUMNS: Final[Mapping[str, Kind]] = {
    "topic": Kind.TEXT,
    "partition": Kind.NUMBER,
    "offset": Kind.NUMBER,
    "key": Kind.BYTES,
    "value": Kind.BYTES,
    "timestamp": Kind.TIME,
    "message_id": Kind.TEXT,
}
"""Columns by themselves; `headers['…']` and `json_value(value, '$.…')` are the others."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the record."""

    name: str

    @property
    def kind(self) -> Kind:
        return COLUMNS[self.name]


@dataclass(frozen=True, slots=True)
class Header:
    """The last header of a name; null if there is none, or it has no value."""

    name: str

    @property
    def kind(self) -> Kind:
        return Kind.BYTES


@dataclass(frozen=True, slots=True)
class Json:
    """What stands at a path in the JSON of `key` or `value`.

    Null if there is nothing, null, an object or an array, or if it is no JSON.
    """

    column: str
    path: tuple[str | int, ...]

    @property
    def kind(self) -> Kind:
        return Kind.JSON


Field = Column | Header | Json


class Op(StrEnum):
    """Comparisons."""

    EQ, NE, LT, LE, GT, GE = "=", "<>", "<", "<=", ">", ">="


_COMPARE: Final[Mapping[Op, Callable[[Any, Any], bool]]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}


@dataclass(frozen=True, slots=True)
class Compare:
    """`field op literal`."""

    field: Field
    op: Op
    literal: Literal


@dataclass(frozen=True, slots=True)
class In:
    """`field IN (…)`: the literals are of one type."""

    field: Field
    literals: frozenset[Literal]


@dataclass(frozen=True, slots=True)
class Like:
    """`field LIKE pattern`: % any text, _ one character."""

    field: Field
    pattern: str


@dataclass(frozen=True, slots=True)
class IsNull:
    """`field IS NULL`."""

    field: Field


@dataclass(frozen=True, slots=True)
class Not:
    """Unknown stays unknown."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class And:
    """All of them."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of them."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Always:
    """TRUE or FALSE as it is written."""

    truth: bool


Condition = Compare | In | Like | IsNull | Not | And | Or | Always


def fields_of(condition: Condition) -> Iterator[Field]:
    """Every field that is asked for."""
    match condition:
        case Always():
            return
        case Not(inner):
            yield from fields_of(inner)
        case And(several) | Or(several):
            for one in several:
                yield from fields_of(one)
        case _:
            yield condition.field


def compare(value: Any, op: Op, literal: Literal) -> Truth:
    """Of a value that is as its field's kind says; None with null and with another type."""
    if value is None or _type_of(value) is not _type_of(literal):
        return None
    return _COMPARE[op](value, literal)


def is_in(value: Any, literals: frozenset[Literal]) -> Truth:
    """None with null and with another type."""
    sample = next(iter(literals))
    if value is None or _type_of(value) is not _type_of(sample):
        return None
    return value in literals


def like(value: Any, pattern: str) -> Truth:
    """None with null and with what is no text. Bytes that are no UTF-8 are characters of their own.

    Each piece between two % is sought once, from the left: with the parser's bound on pieces no
    pattern takes long.
    """
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    if not isinstance(value, str):
        return None
    first, *rest = pattern.split("%")
    if not rest:
        return len(value) == len(first) and _piece(first).match(value) is not None
    *middle, last = rest
    at, end = len(first), len(value) - len(last)
    if at > end or not _piece(first).match(value) or not _piece(last).match(value, end):
        return False
    for piece in middle:
        found = _piece(piece).search(value, at, end)
        if found is None:
            return False
        at = found.end()
    return True


def _type_of(value: Any) -> type:
    # A boolean is no number here, though Python says so.
    if isinstance(value, bool):
        return bool
    return float if isinstance(value, int | float) else type(value)


@lru_cache(1_000)
def _piece(text: str) -> re.Pattern[str]:
    return re.compile("".join("." if c == "_" else re.escape(c) for c in text), re.DOTALL)
