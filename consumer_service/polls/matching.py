"""The records of a partition that a group's predicate takes; the others are skipped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.reading.tailer import Tailer
from consumer_service.reading.undecodable import OnUndecodable
from lakequeue.clock import boot_seconds
from lakequeue.wire import UNDECODABLE
from queue_rules.predicates.bounds import may_match
from queue_rules.predicates.evaluation import matching, slow_parts
from queue_rules.predicates.expressions import Condition, Literal

READ_ROWS = 20_000
READ_BYTES = 8 << 20
FIND_S = 0.5
"""One look at one partition takes about so long at most: then polls see whether they still wait."""

_SLICE_BYTES = 4 << 20
"""Looked through row by row in some 0.1 s, by one LIKE or `json_value`; less by several of them."""


class Matches(NamedTuple):
    """What a look has found."""

    rows: pa.Table | None
    """All match; None: nothing was found."""
    passed: int
    """Everything before this offset has been looked at."""


class Judged(NamedTuple):
    """What became of rows."""

    found: pa.Table
    """Those that match."""
    rows: int
    """So many were judged: all, unless some fail and time is over."""
    failed: list[tuple[int, str]]
    """Offset and error of each that cannot be judged."""


def judge(predicate: Condition, rows: pa.Table, deadline: float) -> Judged:
    """Which rows match. If judging fails, it is halved until the guilty rows stand alone."""
    found: list[pa.Table] = []
    failed: list[tuple[int, str]] = []
    count, waiting = 0, _slices(predicate, rows)
    while waiting and (count == 0 or boot_seconds() < deadline):
        part = waiting.pop()
        try:
            found.append(matching(predicate, part))
        except Exception as error:  # noqa: BLE001 -- no record may end the group; it is said
            if part.num_rows > 1:
                half = part.num_rows // 2
                waiting += [part.slice(half), part.slice(0, half)]
                continue
            failed.append((part["offset"][0].as_py(), f"{type(error).__name__}: {error}"[:500]))
        count += part.num_rows
    return Judged(pa.concat_tables(found) if found else rows.slice(0, 0), count, failed)


def _slices(predicate: Condition, rows: pa.Table) -> list[pa.Table]:
    """The rows in parts, the last one first; between two of them somebody looks at the clock."""
    parts = max(1, slow_parts(predicate) * rows.nbytes // _SLICE_BYTES)
    size = max(1, rows.num_rows // parts)
    return [rows.slice(at, size) for at in range(0, rows.num_rows, size)][::-1]


def _said(owned: OwnedPartition, offset: int, why: str) -> dict[str, Any]:
    place = {"topic": owned.topic, "partition": int(owned.key.partition), "offset": offset}
    return place | {UNDECODABLE: f"the predicate fails at it: {why}"}


def find_matching(
    tailer: Tailer,
    owned: OwnedPartition,
    position: int,
    predicate: Condition,
    on_undecodable: OnUndecodable,
) -> Matches:
    """Look from `position` on until something matches, the end is reached, or time is over.

    A record that cannot be judged matches nothing; `on_undecodable` is told of it.
    Raises `OffsetOutOfRange` when `position` has expired.
    """

    def may_hold(bounds: Mapping[str, tuple[int, int]]) -> bool:
        known: dict[str, tuple[Literal, Literal]] = dict(bounds)
        known |= {"topic": (owned.topic, owned.topic), "partition": (partition, partition)}
        try:
            return may_match(predicate, known)
        except Exception:  # noqa: BLE001 -- bounds that cannot be compared rule nothing out
            return True

    partition = int(owned.key.partition)
    deadline = boot_seconds() + FIND_S
    at, end = position, tailer.end(owned.where)
    while at < end:
        before = at
        rows, at = tailer.read_some(owned.where, at, READ_ROWS, READ_BYTES, may_hold)
        if rows is not None:
            judged = judge(predicate, rows, deadline)
            if judged.failed:
                on_undecodable(owned.key.group, [_said(owned, *one) for one in judged.failed])
            if judged.rows < rows.num_rows:
                at = rows["offset"][judged.rows].as_py()
            if judged.found.num_rows:
                return Matches(judged.found, at)
        if at == before or boot_seconds() > deadline:
            break
    return Matches(None, at)
