"""Predicates: read, evaluated on Arrow, and judged by bounds, against a model in plain Python."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakequeue.errors import InvalidRequest
from lakequeue.records import Record
from queue_rules.predicates.bounds import Bounds, may_match
from queue_rules.predicates.evaluation import matching
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
)
from queue_rules.predicates.of_group import check_new, predicate_of
from queue_rules.predicates.parsing import parse
from queue_rules.predicates.single import matches
from queue_tables.schema.schemas import LOG

TEXTS = st.text("ab%_'é", max_size=3)
NUMBERS = st.integers(-2, 4)
SCHEMA = pa.schema(
    [
        LOG.file_arrow.field(name)
        for name in (
            *("topic", "partition", "offset", "key", "value"),
            *("timestamp", "message_id", "headers"),
        )
    ]
)


# -- the model: one record at a time, nothing shared with the code --------------------------------


def value_of(field: Field, row: dict[str, Any]) -> Any:
    match field:
        case Column(name):
            return row[name]
        case Header(name):
            values = [h["value"] for h in row["headers"] or [] if h["key"] == name]
            return values[-1] if values else None
        case Json(column, path):
            try:
                found = json.loads(row[column])
                for step in path:
                    if isinstance(found, str):
                        return None
                    found = found[step]
            except (TypeError, ValueError, KeyError, IndexError):
                return None
            return found if isinstance(found, str | int | float | bool) else None


def same_kind(value: Any, literal: Any) -> bool:
    numbers = [isinstance(v, int | float) and not isinstance(v, bool) for v in (value, literal)]
    return all(numbers) or type(value) is type(literal)


def truth(condition: Condition, row: dict[str, Any]) -> bool | None:
    match condition:
        case Always(always):
            return always
        case Not(inner):
            found = truth(inner, row)
            return None if found is None else not found
        case And(several):
            parts = [truth(one, row) for one in several]
            return False if False in parts else None if None in parts else True
        case Or(several):
            parts = [truth(one, row) for one in several]
            return True if True in parts else None if None in parts else False
        case _:
            return truth_of(condition, value_of(condition.field, row))


def truth_of(condition: Condition, value: Any) -> bool | None:
    match condition:
        case IsNull(_):
            return value is None
        case Compare(_, op, literal):
            if value is None or not same_kind(value, literal):
                return None
            less, equal = bool(value < literal), bool(value == literal)
            return {
                Op.EQ: equal,
                Op.NE: not equal,
                Op.LT: less,
                Op.LE: less or equal,
                Op.GT: not less and not equal,
                Op.GE: not less,
            }[op]
        case In(_, literals):
            if value is None or not same_kind(value, next(iter(literals))):
                return None
            return any(value == literal for literal in literals)
        case Like(_, pattern):
            value = value.decode() if isinstance(value, bytes) else value
            if not isinstance(value, str):
                return None
            pieces = {"%": ".*", "_": "."}
            regex = "".join(pieces.get(c, re.escape(c)) for c in pattern)
            return re.fullmatch(regex, value, re.DOTALL) is not None
        case _:
            raise AssertionError(condition)


# -- what is generated ----------------------------------------------------------------------------

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS | st.sampled_from([0.5, 2.0]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)
VALUES = JSON_VALUES.map(lambda v: json.dumps(v).encode()) | TEXTS.map(str.encode) | st.none()
HEADERS = st.none() | st.lists(
    st.fixed_dictionaries(
        {"key": st.sampled_from("ab"), "value": st.none() | TEXTS.map(str.encode)}
    ),
    max_size=3,
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "topic": TEXTS,
            "partition": NUMBERS,
            "offset": NUMBERS,
            "key": st.none() | TEXTS.map(str.encode),
            "value": VALUES,
            "timestamp": NUMBERS,
            "message_id": st.none() | TEXTS,
            "headers": HEADERS,
        }
    ),
    max_size=6,
)
PATHS = st.lists(st.sampled_from(["a", "b", 0, 1]), max_size=2).map(tuple)
FIELDS: st.SearchStrategy[Field] = (
    st.sampled_from(
        ["topic", "partition", "offset", "key", "value", "timestamp", "message_id"]
    ).map(Column)
    | st.sampled_from("ab").map(Header)
    | st.builds(Json, st.sampled_from(["key", "value"]), PATHS)
)


def literals_of(field: Field) -> st.SearchStrategy[Any]:
    match field.kind:
        case Kind.TEXT:
            return TEXTS
        case Kind.BYTES:
            return TEXTS.map(str.encode)
        case Kind.NUMBER | Kind.TIME:
            return NUMBERS
        case Kind.JSON:
            return TEXTS | NUMBERS | st.booleans() | st.sampled_from([0.5, 2.0])


@st.composite
def simple(draw: st.DrawFn) -> Condition:
    field = draw(FIELDS)
    kind = draw(st.sampled_from(["compare", "in", "null", "like", "always"]))
    if kind == "null":
        return IsNull(field)
    if kind == "always":
        return Always(draw(st.booleans()))
    if kind == "like" and field.kind not in {Kind.NUMBER, Kind.TIME}:
        return Like(field, draw(TEXTS))
    one = draw(literals_of(field))
    if kind == "in":
        more = draw(st.lists(literals_of(field), max_size=2))
        return In(field, frozenset([one, *(m for m in more if same_kind(m, one))]))
    return Compare(field, draw(st.sampled_from(Op)), one)


CONDITIONS: st.SearchStrategy[Condition] = st.recursive(
    simple(),
    lambda inner: (
        inner.map(Not)
        | st.lists(inner, min_size=2, max_size=3).map(lambda c: And(tuple(c)))
        | st.lists(inner, min_size=2, max_size=3).map(lambda c: Or(tuple(c)))
    ),
    max_leaves=5,
)


def sql(condition: Condition) -> str:
    """As somebody would write it."""
    match condition:
        case Always(always):
            return str(always)
        case Not(inner):
            return f"NOT ({sql(inner)})"
        case And(several):
            return " AND ".join(f"({sql(one)})" for one in several)
        case Or(several):
            return " OR ".join(f"({sql(one)})" for one in several)
        case IsNull(field):
            return f"{name(field)} IS NULL"
        case Compare(field, op, literal):
            return f"{name(field)} {op} {quoted(literal)}"
        case In(field, literals):
            return f"{name(field)} IN ({', '.join(map(quoted, literals))})"
        case Like(field, pattern):
            return f"{name(field)} LIKE {quoted(pattern)}"


def name(field: Field) -> str:
    match field:
        case Column(column):
            return column
        case Header(header):
            return f"headers['{header}']"
        case Json(column, path):
            steps = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path)
            return f"json_value({column}, '${steps}')"


def quoted(literal: Any) -> str:
    if isinstance(literal, bytes):
        literal = literal.decode()
    return "'" + literal.replace("'", "''") + "'" if isinstance(literal, str) else str(literal)


# -- the properties -------------------------------------------------------------------------------


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


@given(CONDITIONS, ROWS)
def test_the_rows_that_match_are_those_of_the_model(
    condition: Condition, rows: list[dict[str, Any]]
) -> None:
    numbered = [row | {"timestamp": i} for i, row in enumerate(rows)]
    found = matching(condition, table(numbered))["timestamp"].cast(pa.int64()).to_pylist()
    wanted = [i for i, row in enumerate(numbered) if truth(condition, row) is True]
    assert found == wanted
    assert [i for i, row in enumerate(numbered) if matches(condition, record(row))] == wanted


def record(row: dict[str, Any]) -> Record:
    headers = tuple((h["key"], h["value"]) for h in row["headers"] or ())
    return Record(**(row | {"headers": headers}))


@given(CONDITIONS)
def test_what_is_written_is_what_is_read(condition: Condition) -> None:
    assert flat(parse(sql(condition))) == flat(condition)


def flat(condition: Condition) -> Condition:
    """Parentheses are not kept: a chain of one connective is one."""
    match condition:
        case Not(inner):
            return Not(flat(inner))
        case And(several) | Or(several):
            kind = type(condition)
            parts: list[Condition] = []
            for one in map(flat, several):
                parts += one.conditions if isinstance(one, kind) else (one,)
            return kind(tuple(parts))
        case _:
            return condition


@given(CONDITIONS, ROWS)
def test_bounds_never_shut_out_a_record_that_matches(
    condition: Condition, rows: list[dict[str, Any]]
) -> None:
    matches = [row for row in rows if truth(condition, row) is True]
    if not matches:
        return
    known = ("topic", "partition", "offset", "timestamp")
    bounds = {c: (min(r[c] for r in rows), max(r[c] for r in rows)) for c in known}
    assert may_match(condition, bounds)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("timestamp >= '2026-01-02'", False),
        ("timestamp >= '2026-01-01T12:00:00Z'", True),
        ("timestamp < TIMESTAMP '2026-01-01 00:00:00'", False),
        ("timestamp BETWEEN '2025-01-01' AND '2025-12-31'", False),
        ("NOT timestamp < '2026-01-02'", False),
        ("topic = 'orders' AND key = 'x'", True),
        ("topic <> 'orders'", False),
        ("topic IN ('a', 'b') OR partition = 1", False),
        ("offset > 10 AND offset <= 20", True),
        ("offset > 20", False),
        ("key = 'x' OR offset > 20", True),
        ("FALSE", False),
    ],
)
def test_files_are_skipped_by_their_bounds(text: str, found: bool) -> None:
    day = datetime(2026, 1, 1, tzinfo=UTC)
    low, high = (
        int(t.timestamp()) * 1_000_000 for t in (day, day + timedelta(hours=23, minutes=59))
    )
    bounds: Bounds = {
        "topic": ("orders", "orders"),
        "partition": (0, 0),
        "offset": (5, 20),
        "timestamp": (low, high),
    }
    assert may_match(parse(text), bounds) is found


@pytest.mark.parametrize(
    ("text", "why", "position"),
    [
        ("key = ", "does not parse", 4),
        ("key = 'x' AND colour = 'red'", "column 'colour' is not known", 14),
        ("KEY = 'x' AND headers.kind = 'a'", "is not allowed", 14),
        ("key = 'x' garbage", "ALIAS is not a condition", 0),
        ("key = 'x'; DROP TABLE log", "BLOCK is not a condition", 0),
        ("key IN (SELECT key FROM log)", "is not allowed", 0),
        ("EXISTS (SELECT 1)", "EXISTS is not a condition", 15),
        ("read_text('/etc/passwd') = 'x'", "READ_TEXT is not a field", 0),
        ("offset % 2 = 0", "MOD is not a field", 0),
        ("key = value", "compared with a literal", 6),
        ("key", "COLUMN is not a condition", 0),
        ("key = 5", "5 does not go with key", 0),
        ("offset = '5'", "a whole number", 0),
        ("offset = 1.5", "a whole number", 0),
        ("offset = 99999999999999999999", "a whole number", 0),
        ("timestamp > 'yesterday'", "not a time", 0),
        ("key = NULL", "IS NULL", None),
        ("offset LIKE '1%'", "LIKE is for text", 0),
        (f"key LIKE '%{'_' * 100}b%'", "has 100 characters at most", 0),
        ("json_value(value, 'a') = 1", "is not one such as", 0),
        ("json_value(value, '$..a') = 1", "is not one such as", 0),
        ("json_value(topic, '$.a') = 1", "'topic' is not known here", 11),
        ("json_value(value, '$.a') IN (1, 'x')", "in one list", 0),
        ("headers[1] = 'x'", "a header is named by text", 0),
        ("(" * 3_000 + "TRUE" + ")" * 3_000, "", None),
        ("NOT " * 900 + "TRUE", "nested too deeply", None),
        ("", "does not parse", None),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(
    text: str, why: str, position: int | None
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(text)
    error = refused.value
    assert why in error.detail
    assert error.extra["field"] == "predicate"
    assert error.extra["position"] == position
    assert "timestamp" in error.extra["columns"]


def test_a_time_in_seconds_is_refused_of_a_new_group_and_kept_of_an_old_one() -> None:
    for text in ("timestamp > 1767225600", "timestamp BETWEEN 1767225600000 AND 1767225600001"):
        assert predicate_of({"predicate": text}) is not None
        with pytest.raises(InvalidRequest, match="before 1973"):
            check_new({"predicate": text})
    check_new({"predicate": "timestamp > 1767225600000000 OR timestamp < '1970-01-02'"})
    check_new({})
