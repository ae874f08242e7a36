"""Whether records within known bounds can match at all: files are skipped by it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from queue_rules.predicates.expressions import (
    Always,
    And,
    Column,
    Compare,
    Condition,
    In,
    Literal,
    Not,
    Op,
    Or,
)

Bounds = Mapping[str, tuple[Literal, Literal]]
"""Column → lowest and highest value of it, both inclusive. What is not known is not in it."""


class Possible(NamedTuple):
    """What a condition can be for some record within the bounds; too much, never too little."""

    true: bool
    false: bool


_ANYTHING = Possible(True, True)


def may_match(condition: Condition, bounds: Bounds) -> bool:
    """False only if no record within `bounds` matches."""
    return possible(condition, bounds).true


def possible(condition: Condition, bounds: Bounds) -> Possible:
    """Which of True and False the condition can be."""
    match condition:
        case Always(truth):
            return Possible(truth, not truth)
        case Not(inner):
            found = possible(inner, bounds)
            return Possible(found.false, found.true)
        case And(several):
            parts = [possible(one, bounds) for one in several]
            return Possible(all(p.true for p in parts), any(p.false for p in parts))
        case Or(several):
            parts = [possible(one, bounds) for one in several]
            return Possible(any(p.true for p in parts), all(p.false for p in parts))
        case Compare(Column(name), op, literal) if name in bounds:
            return _compared(*bounds[name], op, literal)
        case In(Column(name), literals) if name in bounds:
            each = [_compared(*bounds[name], Op.EQ, literal) for literal in literals]
            return Possible(any(p.true for p in each), all(p.false for p in each))
        case _:
            return _ANYTHING


def _compared(low: Literal, high: Literal, op: Op, literal: Literal) -> Possible:
    below, above = low < literal, high > literal  # type: ignore[operator] # of one kind
    inside = not (low > literal or high < literal)  # type: ignore[operator]
    match op:
        case Op.EQ:
            return Possible(inside, below or above)
        case Op.NE:
            return Possible(below or above, inside)
        case Op.LT:
            return Possible(below, inside or above)
        case Op.LE:
            return Possible(below or inside, above)
        case Op.GT:
            return Possible(above, inside or below)
        case Op.GE:
            return Possible(above or inside, below)
