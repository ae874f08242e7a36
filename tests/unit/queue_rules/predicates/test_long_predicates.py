"""Predicates of many parts: allowed, and quick."""

from __future__ import annotations

import pyarrow as pa

from queue_rules.predicates.evaluation import matching
from queue_rules.predicates.expressions import Column, Like, Or
from queue_rules.predicates.parsing import parse


def test_a_long_chain_is_not_deep() -> None:
    found = parse(" OR ".join(f"offset = {n}" for n in range(150)))
    assert isinstance(found, Or)
    assert len(found.conditions) == 150


def test_a_pattern_of_many_parts_is_no_slow_one() -> None:
    text = "%a" * 40 + "b"
    assert not truth_of_like("a" * 20_000, text)


def truth_of_like(value: str, pattern: str) -> bool:
    row = {"key": value.encode()}
    rows = pa.table({"key": pa.array([row["key"]], pa.binary())})
    return bool(matching(Like(Column("key"), pattern), rows).num_rows == 1)


def test_long_like_patterns_are_allowed_where_they_are_sought_at_one_place_or_fast() -> None:
    anchored, plain = "_" * 500, "a" * 500
    for pattern in (f"{anchored}%", f"%{anchored}", anchored, f"%{plain}%", f"%{'_' * 100}%"):
        assert isinstance(parse(f"key LIKE '{pattern}'"), Like)
