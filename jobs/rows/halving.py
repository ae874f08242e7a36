"""Finds what makes a batch fail: tried in halves, until what is guilty stands alone. Pure.

For faults that nobody thought of. What is looked for fails by itself, or only together with others;
either way some smallest part is found whose absence lets the rest through. The number of trials is
bounded: where it is used up, a part is taken as guilty that could not be halved any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Units = npt.NDArray[np.int64]
Fails = Callable[[Units], Exception | None]
"""Tries these units alone; what they fail with, None if they pass."""
MOST_TRIALS = 10_000
"""Each unit costs two at most: up to 5,000 units the search is never broken off."""
_SINGLY = 4
"""So few that fail are tried one by one: halves cost as much, and more if all are guilty."""
_DENSE = 64
"""So few are, if half of those that were tried so last were guilty: each then takes one trial, not
two. In more of them there may be few."""
_REMEMBERED = 16


class Guilty(NamedTuple):
    """Units that fail: nearly always one."""

    units: Units
    error: Exception


def find_guilty(count: int, fails: Fails, most_trials: int = MOST_TRIALS) -> list[Guilty]:
    """The units among `count` without which the rest passes; [] if all pass as they are."""
    return list(guilty_among(count, fails, most_trials))


def guilty_among(
    count: int, fails: Fails, most_trials: int = MOST_TRIALS, *, once: bool = False
) -> Iterator[Guilty]:
    """The same, each as it is found: what a search has found that is broken off is true as well.

    `once`: the caller tries the rest, which passes nearly always.
    """
    search = _Search(fails, most_trials)
    rest = np.arange(count)
    while len(rest) and (error := search.fails(rest)) is not None:
        found: list[Guilty] = []
        for guilty in search.within(rest, error):
            found.append(guilty)
            yield guilty
        if once:
            return
        rest = np.setdiff1d(rest, np.concatenate([guilty.units for guilty in found]))


class _Search:
    def __init__(self, fails: Fails, left: int) -> None:
        self._fails = fails
        self._left = left
        self._last: deque[bool] = deque(maxlen=_REMEMBERED)
        """Of the units that were tried alone last: whether they failed."""

    def fails(self, units: Units) -> Exception | None:
        self._left -= 1
        return self._fails(units)

    @property
    def _is_dense(self) -> bool:
        return len(self._last) == _REMEMBERED and 2 * sum(self._last) >= _REMEMBERED

    def within(self, units: Units, error: Exception) -> Iterator[Guilty]:
        """The guilty among `units`, which fail together; at least one."""
        if len(units) == 1 or self._left <= 0:
            yield Guilty(units, error)
            return
        singly = len(units) <= (_DENSE if self._is_dense else _SINGLY)
        parts = np.array_split(units, len(units) if singly else 2)
        all_pass = True
        for part in parts:
            failed = self.fails(part)
            if singly:
                self._last.append(failed is not None)
            if failed is not None:
                all_pass = False
                yield from self.within(part, failed)
        if all_pass:
            yield self._last_of_a_prefix(units, len(parts[0]), error)

    def _last_of_a_prefix(self, units: Units, passes: int, error: Exception) -> Guilty:
        """Each part passes, and all together fail: the last of the shortest failing prefix."""
        failing = len(units)
        while failing - passes > 1:
            middle = (passes + failing) // 2
            failed = self.fails(units[:middle])
            if failed is None:
                passes = middle
            else:
                failing, error = middle, failed
        return Guilty(units[failing - 1 : failing], error)
