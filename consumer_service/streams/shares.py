"""How much of an answer each partition gives. Pure.

A file of the log has records of many partitions, and is decoded as a whole. So an answer takes
something of each partition that has records: then all of them come out of the files that were
decoded just now.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from consumer_service.reading.columns import Form
from consumer_service.reading.runs import READ_AHEAD_BYTES, READ_AHEAD_ROWS

COLUMNS_FROM = 256
"""If so many records wait they leave as columns: of few, to make objects of them is cheaper."""
TEXT_FROM = 128
"""As JSON if so many wait in each partition that has some."""
_LEAST_ROWS = 512
_LEAST_BYTES = 256 << 10
"""A smaller share costs more than it is worth."""


class Share(NamedTuple):
    """Of one partition."""

    rows: int
    bytes: int
    columns: bool
    """Its rows leave in columns."""
    ahead_rows: int = READ_AHEAD_ROWS
    ahead_bytes: int = READ_AHEAD_BYTES
    """What one read from the files brings. Of a share nothing is read ahead: the files that were
    decoded for it stay in memory for the next one."""


def in_turn(waiting: Sequence[int], rows: int) -> list[int]:
    """In which order partitions give, where so many records wait in each: their numbers.

    Those that have less than their share come first, if all give some: others give more then.
    """
    numbers = range(len(waiting))
    if sum(count > 0 for count in waiting) * _LEAST_ROWS > rows:
        return list(numbers)  # or those that have many would never be reached
    return sorted(numbers, key=waiting.__getitem__)


def share_of(rows: int, size: int, partitions: int, *, columns: bool) -> Share:
    """Of so many rows and bytes that are left, and so many partitions that come to give some.

    Few records leave as JSON, one partition after the other.
    """
    if not columns or partitions < 2:
        return Share(rows, size, columns)
    rows = min(rows, max(_LEAST_ROWS, -(-rows // partitions)))
    size = min(size, max(_LEAST_BYTES, -(-size // partitions)))
    return Share(rows, size, columns, rows, size)


def is_much(waiting: list[int], form: Form) -> bool:
    """Whether so many records wait, in each partition so many, that columns pay."""
    some = sum(count > 0 for count in waiting)
    least = COLUMNS_FROM if form == "arrow" else max(COLUMNS_FROM, TEXT_FROM * some)
    return sum(waiting) >= least
