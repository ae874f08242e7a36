"""Values of filters that Spark offers, as its planning process reads them."""

from __future__ import annotations

import base64
import datetime
from types import ModuleType

import pytest
from pyspark.sql.types import VariantVal
from pyspark.sql.worker import data_source_pushdown_filters as planner

from pyspark_lakequeue.source.offered_filters import pass_odd_values

TIMESTAMP = 12 << 2
"""The header of a variant that is a time: then come eight bytes, microseconds since 1970."""


def offered(micros: int) -> dict[str, object]:
    """`timestamp < …` as Spark writes it."""
    value = bytes([TIMESTAMP]) + micros.to_bytes(8, "little", signed=True)
    return {
        "name": "LessThan",
        "columnPath": ["timestamp"],
        "value": {
            "value": base64.b64encode(value).decode(),
            "metadata": base64.b64encode(b"\x01\x00\x00").decode(),
        },
        "isNegated": False,
    }


@pytest.fixture
def as_printed(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module as Spark has it; the test leaves it so."""
    monkeypatch.setattr(planner, "VariantVal", VariantVal)
    return planner


YEAR_10000 = 253_402_300_800_000_000


def test_a_time_that_python_cannot_hold_is_offered_all_the_same(as_printed: ModuleType) -> None:
    with pytest.raises(OverflowError):
        as_printed.deserializeFilter(offered(YEAR_10000))
    pass_odd_values()
    for micros in (YEAR_10000, -YEAR_10000, (1 << 63) - 1):
        assert as_printed.deserializeFilter(offered(micros)).value is None
    found = as_printed.deserializeFilter(offered(1_700_000_000_000_000)).value
    assert found == datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)
