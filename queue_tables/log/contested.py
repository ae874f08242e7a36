"""Offsets of which the log holds two copies that differ: a reader stops before them. Pure."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from lakequeue.errors import CorruptTable
from queue_tables.log.index import PartitionKey, Span

REPAIR = "lakequeue repair, or RESTORE the table to the version before that was written"


class _Copies(NamedTuple):
    path: str
    other: str


class Contested:
    """What is contested, of each partition. The caller locks."""

    def __init__(self) -> None:
        self._known: dict[PartitionKey, dict[int, _Copies]] = {}

    def note(self, key: PartitionKey, offset: int, path: str, other: str) -> None:
        """Two files hold the record of that offset, and it is not the same in both."""
        self._known.setdefault(key, {})[offset] = _Copies(path, other)

    def forget(self, path: str) -> None:
        """The file has left the log."""
        for offsets in self._known.values():
            for offset in [n for n, copies in offsets.items() if path in copies]:
                del offsets[offset]

    def before(self, key: PartitionKey, offset: int, span: Span | None) -> Span | None:
        """As much of `span`, the next one from `offset` on, as comes before what is contested.

        Raises `CorruptTable` if that is nothing.
        """
        of_key = self._known.get(key)
        at = min((n for n in of_key if n >= offset), default=None) if of_key else None
        if of_key is None or at is None or (span is not None and span.last < at):
            return span
        if span is None or at <= max(offset, span.first):
            raise twice(key, at, *of_key[at])
        return span.cut(span.first, at - 1)


def differing(some: pa.Table, others: pa.Table) -> int | None:
    """The first row at which two tables of the same records differ; `None`: they are equal."""
    if some.equals(others):
        return None
    pairs = zip(some.to_pylist(), others.to_pylist(), strict=True)
    return next((n for n, (one, other) in enumerate(pairs) if one != other), None)


def twice(key: PartitionKey, offset: int, path: str, other: str) -> CorruptTable:
    """Two different records have one offset."""
    where = f"twice in log file {path}" if path == other else f"in log files {path} and {other}"
    return CorruptTable(
        f"offset {offset} of {key.topic_id}/{key.partition} stands {where}, with different content",
        hint=REPAIR,
    )
