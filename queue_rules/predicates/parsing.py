"""From the text of a predicate to its terms. Pure.

sqlglot reads SQL; of what it has read only what stands here is taken, node by node: everything else
(subqueries, functions, other columns, whatever a later sqlglot may know) is refused with its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import sqlglot
from sqlglot import exp, jsonpath
from sqlglot.errors import SqlglotError

from lakequeue.errors import InvalidRequest
from lakequeue.times import FIRST_NUMERIC_TIME
from queue_rules.predicates.expressions import (
    COLUMNS,
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
    Literal,
    Not,
    Op,
    Or,
)

DEEPEST: Final = 50
LONGEST_SOUGHT: Final = 100
"""Characters of a piece with _ that LIKE seeks anywhere: each is tried at every place of a value,
and a node that seeks for seconds does nothing else."""
NAMES: Final = [*COLUMNS, "headers['name']", "json_value(value, '$.path')"]
_OPS: Final[dict[type[exp.Expr], tuple[Op, Op]]] = {
    exp.EQ: (Op.EQ, Op.EQ),
    exp.NEQ: (Op.NE, Op.NE),
    exp.LT: (Op.LT, Op.GT),
    exp.LTE: (Op.LE, Op.GE),
    exp.GT: (Op.GT, Op.LT),
    exp.GTE: (Op.GE, Op.LE),
}
"""Comparison, and the same with its sides exchanged."""


def parse(text: str, *, judge_times: bool = False) -> Condition:
    """The predicate. Raises `InvalidRequest` with `field`, `position` and `columns`.

    `judge_times`: a time given as a number before 1973 is refused: it is seconds by mistake. Not
    judged are predicates of groups that are there: those of earlier releases are kept.

    `position` counts characters from 0; null where the parser does not tell.
    """
    try:
        tree = sqlglot.parse_one(text)
        return _Reader(text, judge_times).condition(tree, 0)
    except SqlglotError as error:
        at = _place_of(text, error)
        first = (getattr(error, "errors", None) or [{}])[0]
        said = str(first.get("description") or "it is not SQL")
        raise _refused(text, f"it does not parse: {said}", at) from None
    except RecursionError:
        raise _refused(text, "it is nested too deeply", None) from None


def _place_of(text: str, error: SqlglotError) -> int | None:
    first = (getattr(error, "errors", None) or [{}])[0]
    line, end = first.get("line"), first.get("col")
    if line is None or end is None:
        return None
    before = sum(len(one) + 1 for one in text.split("\n")[: line - 1])
    # The parser tells where the token that it stumbled over ends.
    return int(min(len(text), max(0, before + end - len(first.get("highlight") or ""))))


def _refused(text: str, why: str, position: int | None) -> InvalidRequest:
    at = "" if position is None else f" at character {position}: {text[position : position + 40]!r}"
    return InvalidRequest(
        f"predicate: {why}{at}",
        hint=f"compare {', '.join(NAMES)} with literals: = <> < <= > >= IN BETWEEN LIKE IS NULL, "
        "AND OR NOT",
        field="predicate",
        position=position,
        columns=NAMES,
    )


class _Reader:
    """Walks one tree."""

    def __init__(self, text: str, judge_times: bool = False) -> None:
        self._text = text
        self._judge_times = judge_times

    def _refusal(self, node: exp.Expr, why: str) -> InvalidRequest:
        places = [n.meta["start"] for n in node.walk() if "start" in n.meta]
        return _refused(self._text, why, min(places, default=None))

    def _only(self, node: exp.Expr, *names: str) -> None:
        """Refuse a node that says more than is understood here."""
        more = {k for k, v in node.args.items() if v not in (None, False, [])} - set(names)
        if more:
            raise self._refusal(
                node, f"{', '.join(sorted(more))} of {node.key.upper()} is not allowed"
            )

    # -- conditions -------------------------------------------------------------------------------

    def condition(self, node: exp.Expr, depth: int) -> Condition:
        if depth > DEEPEST:
            raise self._refusal(node, "it is nested too deeply")
        match node:
            case exp.Paren():
                self._only(node, "this")
                return self.condition(node.this, depth + 1)
            case exp.And() | exp.Or():
                self._only(node, "this", "expression")
                parts = tuple(self.condition(n, depth + 1) for n in _flat(node, type(node)))
                return And(parts) if isinstance(node, exp.And) else Or(parts)
            case exp.Not():
                self._only(node, "this")
                return Not(self.condition(node.this, depth + 1))
            case _:
                return self._simple(node)

    def _simple(self, node: exp.Expr) -> Condition:
        match node:
            case exp.Boolean():
                return Always(bool(node.this))
            case exp.Between():
                return self._between(node)
            case exp.In():
                return self._in(node)
            case exp.Like():
                found = self._like(node)
                return Not(found) if node.args.get("negate") else found
            case exp.Is():
                self._only(node, "this", "expression")
                if not isinstance(node.expression, exp.Null):
                    raise self._refusal(node, "IS goes with NULL only")
                return IsNull(self._field(node.this))
            case _ if type(node) in _OPS:
                return self._comparison(node)
            case _:
                raise self._refusal(node, f"{_name(node)} is not a condition that is allowed here")

    def _between(self, node: exp.Between) -> Condition:
        self._only(node, "this", "low", "high")
        field = self._field(node.this)
        low, high = (self._literal(node.args[side]) for side in ("low", "high"))
        return And(
            (self._compare(node, field, Op.GE, low), self._compare(node, field, Op.LE, high))
        )

    def _comparison(self, node: exp.Expr) -> Condition:
        self._only(node, "this", "expression")
        straight, exchanged = _OPS[type(node)]
        left, right = node.this, node.expression
        if _is_literal(left):
            return self._compare(node, self._field(right), exchanged, self._literal(left))
        field = self._field(left)
        if not _is_literal(right):
            raise self._refusal(right, "a field is compared with a literal, and this is not one")
        return self._compare(node, field, straight, self._literal(right))

    def _compare(self, node: exp.Expr, field: Field, op: Op, literal: Any) -> Compare:
        return Compare(field, op, self._fitting(node, field, literal))

    def _in(self, node: exp.In) -> Condition:
        self._only(node, "this", "expressions")
        if not node.expressions:
            raise self._refusal(node, "IN needs a list of literals")
        field = self._field(node.this)
        values = [self._fitting(node, field, self._literal(n)) for n in node.expressions]
        kinds = {_type_name(value) for value in values}
        if len(kinds) > 1:
            raise self._refusal(node, f"IN has {' and '.join(sorted(kinds))} in one list")
        return In(field, frozenset(values))

    def _like(self, node: exp.Like) -> Like:
        self._only(node, "this", "expression", "negate")
        field, pattern = self._field(node.this), self._literal(node.expression)
        if field.kind in {Kind.NUMBER, Kind.TIME} or not isinstance(pattern, str):
            raise self._refusal(node, "LIKE is for text, with a pattern in quotes")
        between = pattern.split("%")[1:-1]
        if any("_" in piece and len(piece) > LONGEST_SOUGHT for piece in between):
            raise self._refusal(
                node, f"between two % a piece with _ has {LONGEST_SOUGHT} characters at most"
            )
        return Like(field, pattern)

    # -- fields -----------------------------------------------------------------------------------

    def _field(self, node: exp.Expr) -> Field:
        match node:
            case exp.Paren():
                return self._field(node.this)
            case exp.Column():
                return Column(self._column(node, *COLUMNS))
            case exp.Bracket():
                self._only(node, "this", "expressions")
                self._column(node.this, "headers")
                names = node.expressions
                if len(names) != 1 or not (
                    isinstance(names[0], exp.Literal) and names[0].is_string
                ):
                    raise self._refusal(node, "a header is named by text: headers['name']")
                return Header(names[0].this)
            case exp.Anonymous() if str(node.this).lower() == "json_value":
                arguments = node.expressions
                if len(arguments) != 2 or not arguments[1].is_string:
                    raise self._refusal(node, "json_value takes key or value, and a path: '$.a.b'")
                column = self._column(arguments[0], "key", "value")
                return Json(column, self._path(node, str(arguments[1].this)))
            case _:
                raise self._refusal(node, f"{_name(node)} is not a field that is allowed here")

    def _column(self, node: exp.Expr, *allowed: str) -> str:
        if not isinstance(node, exp.Column):
            raise self._refusal(node, f"{_name(node)} is not a column")
        self._only(node, "this")
        name = node.name.lower() if not node.this.args.get("quoted") else node.name
        if name not in allowed:
            raise self._refusal(
                node, f"column {node.name!r} is not known here ({', '.join(allowed)} are)"
            )
        return name

    def _path(self, node: exp.Expr, path: str) -> tuple[str | int, ...]:
        try:
            steps = jsonpath.parse(path).expressions if path.startswith("$") else []
        except SqlglotError:
            steps = []
        found: list[str | int] = []
        for step in steps[1:]:
            match step:
                case exp.JSONPathKey(this=str(name)):
                    found.append(name)
                case exp.JSONPathSubscript(this=int(index)) if index >= 0:
                    found.append(index)
                case _:
                    steps = []
        if not steps:
            raise self._refusal(node, f"path {path!r} is not one such as '$.a.b[0]'")
        return tuple(found)

    # -- literals ---------------------------------------------------------------------------------

    def _literal(self, node: exp.Expr) -> Any:
        match node:
            case exp.Literal() if node.is_string:
                return str(node.this)
            case exp.Literal():
                return _number(str(node.this))
            case exp.Neg() if isinstance(node.this, exp.Literal) and not node.this.is_string:
                return -_number(str(node.this.this))
            case exp.Boolean():
                return bool(node.this)
            case exp.Cast() if isinstance(node.this, exp.Literal) and _is_time(node):
                return str(node.this.this)
            case exp.Null():
                raise self._refusal(node, "nothing is = NULL: say IS NULL")
            case _:
                raise self._refusal(node, f"{_name(node)} is not a literal")

    def _fitting(self, node: exp.Expr, field: Field, literal: Any) -> Literal:
        match field.kind, literal:
            case (Kind.TEXT, str()) | (Kind.JSON, str() | bool() | int() | float()):
                return literal  # type: ignore[no-any-return] # one of these types
            case Kind.BYTES, str():
                return literal.encode()
            case (Kind.NUMBER | Kind.TIME, int()) if not isinstance(literal, bool):
                odd = field.kind is Kind.TIME and literal < FIRST_NUMERIC_TIME
                if self._judge_times and odd:
                    why = f"{literal} is before 1973: seconds or milliseconds by mistake?"
                    raise self._refusal(node, f"{why} A time is '2026-01-31T07:00:00Z'")
                if abs(literal) < 1 << 63:
                    return int(literal)
            case Kind.TIME, str():
                return self._micros(node, literal)
        wanted = {
            Kind.TEXT: "text in quotes",
            Kind.BYTES: "text in quotes",
            Kind.NUMBER: "a whole number",
            Kind.TIME: "a time, '2026-01-31T07:00:00Z' or microseconds since 1970",
        }[field.kind]
        raise self._refusal(node, f"{literal!r} does not go with {_text(field)}: {wanted}")

    def _micros(self, node: exp.Expr, text: str) -> int:
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            why = f"{text!r} is not a time, such as '2026-01-31T07:00:00Z'"
            raise self._refusal(node, why) from None
        time = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        since = time - datetime(1970, 1, 1, tzinfo=UTC)
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _flat(node: exp.Expr, kind: type[exp.Expr]) -> Iterator[exp.Expr]:
    """The parts of a chain of one connective, so that a long one is not deep."""
    chain = node
    parts: list[exp.Expr] = []
    while type(chain) is kind:
        parts.append(chain.expression)
        chain = chain.this
    yield chain
    yield from reversed(parts)


def _is_literal(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal | exp.Neg | exp.Boolean | exp.Cast | exp.Null)


def _is_time(node: exp.Cast) -> bool:
    return node.to.this in {
        exp.DataType.Type.TIMESTAMP,
        exp.DataType.Type.TIMESTAMPTZ,
        exp.DataType.Type.DATE,
    }


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _type_name(value: Literal) -> str:
    if isinstance(value, bool):
        return "booleans"
    return "numbers" if isinstance(value, int | float) else "text"


def _text(field: Field) -> str:
    match field:
        case Column(name):
            return name
        case Header(name):
            return f"headers[{name!r}]"
        case Json(column, _):
            return f"json_value({column}, …)"


def _name(node: exp.Expr) -> str:
    return node.name.upper() if isinstance(node, exp.Anonymous) else node.key.upper()
