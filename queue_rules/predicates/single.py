"""What a predicate says of one value, and of one record. Pure, and without Arrow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from lakequeue.records import Record
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
    Like,
    Not,
    Or,
    Truth,
    compare,
    is_in,
    like,
)


def matches(condition: Condition, record: Record) -> bool:
    """Whether the record is one of the group's."""
    return truth(condition, record) is True


def truth(condition: Condition, record: Record) -> Truth:
    """True, False, or None for unknown."""
    match condition:
        case Always(always):
            return always
        case Not(inner):
            found = truth(inner, record)
            return None if found is None else not found
        case And(several):
            parts = {truth(one, record) for one in several}
            return False if False in parts else None if None in parts else True
        case Or(several):
            parts = {truth(one, record) for one in several}
            return True if True in parts else None if None in parts else False
        case _:
            return truth_of_value(condition, value_of(condition.field, record))


def truth_of_value(condition: Compare | In | Like | IsNull, value: Any) -> Truth:
    """The same for a value of its field."""
    match condition:
        case Compare(_, op, literal):
            return compare(value, op, literal)
        case In(_, literals):
            return is_in(value, literals)
        case Like(_, pattern):
            return like(value, pattern)
        case IsNull():
            return value is None


def value_of(field: Field, record: Record) -> Any:
    """What the record has in the field; None: null."""
    match field:
        case Column(name):
            return getattr(record, name)
        case Header(name):
            return last_header(record.headers, name)
        case Json(column, path):
            return json_at(getattr(record, column), path)


def last_header(headers: Iterable[tuple[str, bytes | None]], name: str) -> bytes | None:
    """The last header of that name."""
    return dict(headers).get(name)


def json_at(data: bytes | None, path: Iterable[str | int]) -> Any:
    """Text, number or boolean at the path; None if there is none."""
    try:
        found = None if data is None else orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    for step in path:
        if isinstance(step, str):
            found = found.get(step) if isinstance(found, dict) else None
        else:
            found = found[step] if isinstance(found, list) and step < len(found) else None
    return None if isinstance(found, dict | list) else found
