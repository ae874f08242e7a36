"""The records of a partition that a group's predicate takes; the others are passed over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from consumer_service.ownership.held import Held
from consumer_service.reading.tailer import Tailer
from lakequeue.clock import boot_seconds
from queue_rules.predicates.bounds import may_match
from queue_rules.predicates.evaluation import matching
from queue_rules.predicates.terms import Condition, Literal

READ_ROWS = 20_000
READ_BYTES = 8 << 20
LOOK_S = 0.5
"""One look at one partition takes about so long at most: then polls see whether they still wait."""


class Found(NamedTuple):
    """What a look has found."""

    rows: pa.Table | None
    """All match; None: nothing was found."""
    passed: int
    """Everything before this offset has been looked at."""


def look(tailer: Tailer, held: Held, position: int, predicate: Condition) -> Found:
    """Look from `position` on until something matches, the end is reached, or time is over.

    Raises `OffsetOutOfRange` when `position` has expired.
    """

    def may_hold(bounds: Mapping[str, tuple[int, int]]) -> bool:
        known: dict[str, tuple[Literal, Literal]] = dict(bounds)
        known |= {"topic": (held.topic, held.topic), "partition": (partition, partition)}
        return may_match(predicate, known)

    partition = int(held.key.partition)
    deadline = boot_seconds() + LOOK_S
    at, end = position, tailer.end(held.where)
    while at < end:
        before = at
        rows, at = tailer.read_some(held.where, at, READ_ROWS, READ_BYTES, may_hold)
        found = None if rows is None else matching(predicate, rows)
        if found is not None and found.num_rows:
            return Found(found, at)
        if at == before or boot_seconds() > deadline:
            break
    return Found(None, at)
