"""Sets of offsets as ranges: `[from, to)`, sorted, disjoint and not touching.

Immutable as arrays of shape (n, 2), for the fold; mutable as `OffsetSet`, for whoever delivers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ranges: TypeAlias = npt.NDArray[np.int64]
Offsets: TypeAlias = npt.NDArray[np.int64]

NO_RANGES: Ranges = np.empty((0, 2), np.int64)


def ranges_of(pairs: Iterable[tuple[int, int]]) -> Ranges:
    """The union of any half-open ranges; empty ones vanish."""
    return merged(np.array(list(pairs), np.int64).reshape(-1, 2))


def merged(ranges: Ranges) -> Ranges:
    """The same set, sorted, with what overlaps or touches joined."""
    ranges = ranges[ranges[:, 0] < ranges[:, 1]]
    if len(ranges) <= 1:
        return ranges
    ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
    reach = np.maximum.accumulate(ranges[:, 1])
    begins = np.ones(len(ranges), bool)
    begins[1:] = ranges[1:, 0] > reach[:-1]
    firsts = np.flatnonzero(begins)
    lasts = np.append(firsts[1:], len(ranges)) - 1
    return np.stack((ranges[firsts, 0], reach[lasts]), axis=1)


def union(a: Ranges, b: Ranges) -> Ranges:
    """What is in either."""
    if not len(a) or not len(b):
        return a if len(a) else b
    return merged(np.concatenate((a, b)))


def inside(ranges: Ranges, offsets: Offsets) -> npt.NDArray[np.bool_]:
    """For each offset whether it is in the set."""
    if not len(ranges):
        return np.zeros(len(offsets), bool)
    at = np.searchsorted(ranges[:, 0], offsets, side="right") - 1
    found: npt.NDArray[np.bool_] = (at >= 0) & (offsets < ranges[at, 1])
    return found


def count_from(ranges: Iterable[tuple[int, int]], start: int) -> int:
    """How many offsets of a set are not below `start`."""
    return sum(max(0, int(end) - max(int(first), start)) for first, end in ranges)


class OffsetSet:
    """A set of offsets that grows."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, ranges: Ranges = NO_RANGES) -> None:
        self._starts: list[int] = ranges[:, 0].tolist()
        self._ends: list[int] = ranges[:, 1].tolist()

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._starts, offset) - 1
        return at >= 0 and offset < self._ends[at]

    def __len__(self) -> int:
        """The number of ranges."""
        return len(self._starts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._ends, strict=True)

    def reaches(self, offset: int) -> bool:
        """Whether it has that offset, or a higher one."""
        return bool(self._ends) and self._ends[-1] > offset

    def missing(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The ranges of `[start, end)` that are not in the set."""
        for at in range(bisect_right(self._ends, start), len(self._starts)):
            if start >= end or self._starts[at] >= end:
                break
            if start < self._starts[at]:
                yield start, self._starts[at]
            start = self._ends[at]
        if start < end:
            yield start, end

    def add(self, start: int, end: int) -> None:
        """Add `[start, end)`."""
        if start >= end:
            return
        # The ranges that touch the new one become one with it.
        low = bisect_left(self._ends, start)
        high = bisect_right(self._starts, end)
        if low < high:
            start = min(start, self._starts[low])
            end = max(end, self._ends[high - 1])
        self._starts[low:high] = [start]
        self._ends[low:high] = [end]

    def pop_first(self) -> int:
        """Forget the lowest range; where it ended."""
        del self._starts[0]
        return self._ends.pop(0)

    @property
    def first_gap(self) -> int:
        """The lowest offset from 0 on that is not in the set."""
        return self._ends[0] if self._starts and self._starts[0] <= 0 else 0
