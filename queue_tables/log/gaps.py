"""Gaps: offsets that are in no file of the log, because another engine deleted their rows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lakequeue.errors import OffsetOutOfRange
from queue_tables.log.index import PartitionKey


def gaps(spans: Iterable[tuple[int, int]], first: int, end: int) -> Iterator[tuple[int, int]]:
    """The offsets [from, to) of [first, end) that none of `spans` (first, last) holds.

    `spans` rise, and do not overlap.
    """
    at = first
    for low, last in spans:
        if low >= end:
            break
        if low > at:
            yield at, low
        at = max(at, last + 1)
    if at < end:
        yield at, end


def out_of_range(place: str, offset: int, first: int, end: int) -> OffsetOutOfRange:
    """That a partition has no such offset."""
    return OffsetOutOfRange(
        f"offset {offset} of {place} is outside {first} to {end}",
        hint="seek to an offset that exists",
        first_offset=first,
        end_offset=end,
    )


class GapsSeen:
    """The gaps that reads have come upon, each counted once."""

    def __init__(self) -> None:
        self._known: dict[tuple[PartitionKey, int], int] = {}

    def note(self, key: PartitionKey, start: int, to: int) -> None:
        """A read for `start` went on at `to`."""
        self._known[key, to] = min(self._known.get((key, to), start), start)

    @property
    def offsets(self) -> int:
        """How many offsets they are."""
        return sum(to - start for (_, to), start in self._known.items())
