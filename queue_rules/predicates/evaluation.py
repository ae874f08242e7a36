"""Which rows of an Arrow table a predicate takes. Pure.

Columns are compared by Arrow. Headers, JSON and LIKE go row by row, and so come last: only for rows
that the rest of the predicate has left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from queue_rules.predicates.expressions import (
    Always,
    And,
    Column,
    Compare,
    Condition,
    Field,
    Header,
    In,
    IsNull,
    Json,
    Kind,
    Like,
    Not,
    Op,
    Or,
    Truth,
    fields_of,
)
from queue_rules.predicates.single import json_at, last_header, truth_of_value
from queue_tables.schema.odd_bytes import headers_of, texts_of

_ARROW: dict[Op, Callable[..., Any]] = {
    Op.EQ: pc.equal,
    Op.NE: pc.not_equal,
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.GT: pc.greater,
    Op.GE: pc.greater_equal,
}


def matching(condition: Condition, rows: pa.Table) -> pa.Table:
    """The rows that match, in their order. `rows` has the columns of a log file."""
    parts = condition.conditions if isinstance(condition, And) else (condition,)
    for part in sorted(parts, key=_is_dear):
        if rows.num_rows == 0:
            break
        rows = rows.filter(truths(part, rows))  # unknown is left out, like false
    return rows


def slow_parts(condition: Condition) -> int:
    """How often each row is looked through by itself, as Arrow does not."""
    match condition:
        case Like():
            return 1 + condition.pattern.count("%")
        case Not(inner):
            return slow_parts(inner)
        case And(several) | Or(several):
            return sum(map(slow_parts, several))
        case _:
            return sum(not isinstance(field, Column) for field in fields_of(condition))


def _is_dear(condition: Condition) -> bool:
    return slow_parts(condition) > 0


def truths(condition: Condition, rows: pa.Table) -> pa.ChunkedArray:
    """True, False or null for each row."""
    match condition:
        case Always(truth):
            return _booleans([truth] * rows.num_rows)
        case Not(inner):
            return pc.invert(truths(inner, rows))
        case And(several):
            return reduce(pc.and_kleene, (truths(one, rows) for one in several))
        case Or(several):
            return reduce(pc.or_kleene, (truths(one, rows) for one in several))
        case Compare(Column(name)) | In(Column(name)) | IsNull(Column(name)):
            return _of_column(condition, _column(rows, name))
        case _:
            return _booleans(
                truth_of_value(condition, value) for value in _values(condition.field, rows)
            )


def _of_column(condition: Compare | In | IsNull, column: pa.ChunkedArray) -> pa.ChunkedArray:
    match condition:
        case Compare(_, op, literal):
            return _ARROW[op](column, pa.scalar(literal, column.type))
        case In(_, literals):
            found = pc.is_in(column, pa.array(literals, column.type))
            # SQL does not know of a null whether it is in a list.
            return pc.if_else(pc.is_valid(column), found, pa.scalar(None, pa.bool_()))
        case IsNull():
            return pc.is_null(column)


def _column(rows: pa.Table, name: str) -> pa.ChunkedArray:
    """A column as it meets literals: whole numbers and times are int64."""
    column = rows[name]
    wide = Column(name).kind in {Kind.NUMBER, Kind.TIME}
    return column.cast(pa.int64()) if wide else column


def _values(field: Field, rows: pa.Table) -> Iterable[Any]:
    match field:
        case Column(name):
            return texts_of(_column(rows, name))
        case Header(name):
            return (last_header(some, name) for some in headers_of(rows["headers"]))
        case Json(column, path):
            return (json_at(data, path) for data in rows[column].to_pylist())


def _booleans(values: Iterable[Truth]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, pa.bool_())])
