"""Which task reads which rows of which files. Pure.

A task reads whole row groups as far as that is possible, so that each is decoded once; only a
request for more tasks than there are row groups (`minPartitions`, `maxRecordsPerPartition`) cuts
them. Within a task the records of a partition come in the order of their offsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

TASK_BYTES, MOST_TASK_BYTES, SPREAD = 32 << 20, 128 << 20, 16
"""Bytes of files that a task reads, about, where nothing else is asked for: more of a large topic,
as in Spark's own sources, since each task costs some 50 ms, but not so that fewer than 16 are left.
"""


class RowSpan(NamedTuple):
    """Rows [start, end) of a row group: records of one partition, the first with `offset`."""

    topic: str
    partition: int
    offset: int
    start: int
    end: int


class Piece(NamedTuple):
    """What is read of one row group."""

    ordered_at: str
    path: str
    row_group: int
    size: int
    """Bytes of the file that stand for these rows, about."""
    spans: tuple[RowSpan, ...]
    mixed_up: bool = False
    """Rows are counted in the order that the reader puts them in
    (`queue_tables.log.row_groups`).
    """
    vector: Mapping[str, Any] | None = None
    """The deletion vector of the file: rows that do not count."""

    @property
    def rows(self) -> int:
        """Records."""
        return sum(span.end - span.start for span in self.spans)


def plan_tasks(
    pieces: Sequence[Piece], least: int = 0, most_rows: int | None = None
) -> list[list[Piece]]:
    """Deal the pieces out to tasks; every record goes to exactly one.

    `least`: as many tasks at least, if there are as many records. `most_rows`: of one task.
    """
    ordered = _by_offset(pieces)
    total = sum(piece.rows for piece in ordered)
    if total == 0:
        return []
    size = sum(piece.size for piece in ordered)
    task_bytes = min(MOST_TASK_BYTES, max(TASK_BYTES, size // SPREAD))
    natural = min(len(ordered), -(-size // task_bytes))
    tasks = max(1, natural, least, -(-total // most_rows) if most_rows else 0)
    tasks = min(tasks, total)
    if tasks > len(ordered) or most_rows:
        return _split_evenly(ordered, total, tasks)
    return _whole_groups(ordered, total, tasks)


def _by_offset(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces so that the records of each partition come in the order of their offsets.

    As they were ordered, so are their files, unless another engine has rewritten some: partitions
    whose records are out of order by that are read by themselves.
    """
    ordered = sorted(pieces, key=lambda p: (p.ordered_at, min(p.spans), p.path, p.row_group))
    reached: dict[tuple[str, int], int] = {}
    apart: set[tuple[str, int]] = set()
    for piece in ordered:
        for span in piece.spans:
            place = span.topic, span.partition
            if span.offset < reached.get(place, -1):
                apart.add(place)
            reached[place] = span.offset
    if not apart:
        return ordered
    alone = [
        piece._replace(spans=(span,), size=piece.size * (span.end - span.start) // piece.rows)
        for piece in ordered
        for span in piece.spans
        if (span.topic, span.partition) in apart
    ]
    rest = [
        piece._replace(spans=spans)
        for piece in ordered
        if (spans := tuple(c for c in piece.spans if (c.topic, c.partition) not in apart))
    ]
    return rest + sorted(alone, key=lambda piece: piece.spans)


def _whole_groups(ordered: Sequence[Piece], total: int, tasks: int) -> list[list[Piece]]:
    """Consecutive pieces, about equal numbers of records; no task is empty."""
    out: list[list[Piece]] = [[]]
    done = 0
    for left, piece in zip(range(len(ordered), 0, -1), ordered, strict=True):
        full = done >= total * len(out) / tasks
        needed = left <= tasks - len(out)
        if out[-1] and len(out) < tasks and (full or needed):
            out.append([])
        out[-1].append(piece)
        done += piece.rows
    return out


def _split_evenly(ordered: Sequence[Piece], total: int, tasks: int) -> list[list[Piece]]:
    """Equal numbers of records, give or take one, wherever that cuts."""
    edges = [total * n // tasks for n in range(1, tasks + 1)]
    out: list[list[Piece]] = [[]]
    done = 0
    for piece in ordered:
        rest = piece
        while done + rest.rows > edges[len(out) - 1]:
            head, rest = _split(rest, edges[len(out) - 1] - done)
            if head is not None:
                out[-1].append(head)
                done += head.rows
            out.append([])
        out[-1].append(rest)
        done += rest.rows
    return [task for task in out if task]


def _split(piece: Piece, rows: int) -> tuple[Piece | None, Piece]:
    """The first `rows` records of a piece, and the rest (which is not empty)."""
    head: list[RowSpan] = []
    tail: list[RowSpan] = []
    for span in piece.spans:
        taken = min(rows, span.end - span.start)
        rows -= taken
        middle = span.start + taken
        if taken:
            head.append(span._replace(end=middle))
        if middle < span.end:
            tail.append(span._replace(start=middle, offset=span.offset + taken))
    rest = piece._replace(spans=tuple(tail))
    return (piece._replace(spans=tuple(head)) if head else None), rest
