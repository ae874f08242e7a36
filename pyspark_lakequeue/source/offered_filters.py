"""Filters that Spark offers to the source, with values that no Python object holds."""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql.types import VariantVal

_PLANNERS = ("pyspark.sql.worker.data_source_pushdown_filters", "__main__")
"""The module by which Spark's planning process reads filters, under both of its names."""


class _Value(VariantVal):
    """The value of a filter; None where Python has none for it."""

    def toPython(self) -> Any:  # noqa: N802 -- Spark's name
        """See `VariantVal.toPython`."""
        try:
            return super().toPython()
        except (OverflowError, ValueError):
            return None


def pass_odd_values() -> None:
    """Let `timestamp < '10000-01-01'` be offered like any other filter.

    Spark 4.2 makes a Python value of each filter's own before it asks the reader. A time outside
    the years 1 to 9999 would end the query with an `OverflowError`. The source takes no filter:
    Spark applies all of them to the rows, so nobody looks at the value. To be called in Spark's
    planning process, before it reads the filters; elsewhere it does nothing.
    """
    for name in _PLANNERS:
        module = sys.modules.get(name)
        if hasattr(module, "deserializeFilter"):
            vars(module)["VariantVal"] = _Value
