"""Which of many tests of one kind `make test` runs; `make faults` runs the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet


def one_now(values: Iterable[object], *now: object) -> list[ParameterSet]:
    """The values as parameters of a test; all but `now` are marked `faults`.

    Without `now`, the first one is left to `make test`.
    """
    every = list(values)
    chosen = now or every[:1]
    return [
        pytest.param(value, marks=() if value in chosen else pytest.mark.faults) for value in every
    ]
