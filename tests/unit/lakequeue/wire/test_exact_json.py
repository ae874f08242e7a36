"""What is read of JSON keeps its digits, however deep it goes."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_core import from_json

from lakequeue.wire import loads_exactly

DEEP = "[" * 1_000 + "]" * 1_000
LARGE = 12345678901234567890123


def deep_beside(text: str) -> Any:
    """What is read of a value beside one that goes so deep that another parser reads it."""
    body = f'[{text},"{LARGE}",{DEEP}]'
    with pytest.raises(ValueError, match="recursion"):
        from_json(body)
    found, as_text, deep = loads_exactly(body.encode())
    assert as_text == str(LARGE)
    levels = 1
    while deep:
        (deep,) = deep
        levels += 1
    assert levels == 1_000
    return found


@pytest.mark.parametrize("number", [LARGE, -LARGE, 1 << 64, (1 << 64) - 1, -(1 << 63) - 1, 7])
def test_integers_beside_deep_values_keep_their_digits(number: int) -> None:
    for found in (
        deep_beside(str(number)),
        deep_beside(f'{{"a": {number}}}')["a"],
        deep_beside(f'["\\"{LARGE}", {number}]')[1],
    ):
        assert type(found) is int
        assert found == number


def test_other_numbers_beside_deep_values_are_floats() -> None:
    for text in ("1.5", f"{LARGE}.5", f"{LARGE}e2", "1e300"):
        assert deep_beside(text) == float(text)


def test_what_is_no_json_is_refused() -> None:
    for text in (DEEP[:-1], f"[{DEEP},NaN]", f"[{DEEP} {LARGE}]"):
        with pytest.raises(ValueError):
            loads_exactly(text)
