"""The records of a partition that a group's predicate takes; the others are skipped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.reading.tailer import Tailer
from lakequeue.clock import boot_seconds
from queue_rules.predicates.bounds import may_match
from queue_rules.predicates.evaluation import matching
from queue_rules.predicates.expressions import Condition, Literal

READ_ROWS = 20_000
READ_BYTES = 8 << 20
FIND_S = 0.5
"""One look at one partition takes about so long at most: then polls see whether they still wait."""


class Matches(NamedTuple):
    """What a look has found."""

    rows: pa.Table | None
    """All match; None: nothing was found."""
    passed: int
    """Everything before this offset has been looked at."""


def find_matching(
    tailer: Tailer, owned: OwnedPartition, position: int, predicate: Condition
) -> Matches:
    """Look from `position` on until something matches, the end is reached, or time is over.

    Raises `OffsetOutOfRange` when `position` has expired.
    """

    def may_hold(bounds: Mapping[str, tuple[int, int]]) -> bool:
        known: dict[str, tuple[Literal, Literal]] = dict(bounds)
        known |= {"topic": (owned.topic, owned.topic), "partition": (partition, partition)}
        return may_match(predicate, known)

    partition = int(owned.key.partition)
    deadline = boot_seconds() + FIND_S
    at, end = position, tailer.end(owned.where)
    while at < end:
        before = at
        rows, at = tailer.read_some(owned.where, at, READ_ROWS, READ_BYTES, may_hold)
        found = None if rows is None else matching(predicate, rows)
        if found is not None and found.num_rows:
            return Matches(found, at)
        if at == before or boot_seconds() > deadline:
            break
    return Matches(None, at)
