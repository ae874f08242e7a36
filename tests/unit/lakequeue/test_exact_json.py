"""A value that JSON cannot hold: the error names the field."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from lakequeue.errors import InvalidRequest
from lakequeue.wire.exact_json import dumps_exactly

NAN = float("nan")


class Ratio(enum.Enum):
    NONE = NAN


@dataclass
class Order:
    id: int
    total: Any


def circle() -> dict[str, Any]:
    held: dict[str, Any] = {"a": [1]}
    held["self"] = held["again"] = held
    return held


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"id": 1, "total": Decimal(1)}, r"a dict cannot be sent \(at total\): .*Decimal"),
        ({"lines": [{"n": 1}, {"price": NAN}]}, r"nan cannot be sent \(at lines\[1\]\.price\)"),
        ({"a": None, "b": {"c": (1, NAN)}}, r"\(at b\.c\[1\]\)"),
        ([1, {"x"}], r"a list cannot be sent \(at \[1\]\): "),
        (Order(1, Decimal(1)), r"an? Order cannot be sent \(at total\)"),
        ({"order": Order(1, NAN)}, r"\(at order\.total\)"),
        ({"r": Ratio.NONE}, r"nan cannot be sent \(at r\)"),
        ({"big": 1 << 70, "d": Decimal(1)}, r"\(at d\)"),
        ({"sub": {1: "x"}}, r"a dict cannot be sent \(at sub\)"),
        ({"none": None, "sub": {1: NAN}}, r"\(at sub"),
        (NAN, r"nan cannot be sent: JSON"),
        (Decimal(1), r"a Decimal cannot be sent: "),
    ],
)
def test_the_field_is_named(given: Any, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        dumps_exactly(given)


def test_a_value_that_holds_itself_is_refused_and_not_searched_for_ever() -> None:
    with pytest.raises(InvalidRequest, match="cannot be sent: "):
        dumps_exactly(circle())
