"""Rows with one of each offset: numpy records whose first field is `offset`. Pure."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

OffsetRows: TypeAlias = npt.NDArray[Any]


def furthest(rows: OffsetRows) -> OffsetRows:
    """Sorted by offset; of the rows of one offset the greatest, field by field."""
    if len(rows) <= 1:
        return rows
    offsets = np.ascontiguousarray(rows["offset"])
    order = np.argsort(offsets, kind="stable")
    offsets = offsets[order]
    twice = np.zeros(len(rows), bool)
    np.equal(offsets[1:], offsets[:-1], out=twice[1:])
    rows = rows[order]
    if not twice.any():
        return rows
    # Only what is there twice is compared: that is little.
    several = twice.copy()
    several[:-1] |= twice[1:]
    best: dict[int, Any] = {}
    for row in rows[several].tolist():
        known = best.get(row[0])
        if known is None or known < row:
            best[row[0]] = row
    rows = rows[~twice]
    at = np.searchsorted(rows["offset"], np.fromiter(best, np.int64, len(best)))
    rows[at] = np.array(list(best.values()), rows.dtype)
    return rows
