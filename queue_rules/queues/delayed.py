"""The delayed records of a partition, by the time they are due: compact, for millions. Pure.

New ones go into a small heap; when that is full it becomes a *run*, a sorted array that is only
read from its front. The next due is the least of all fronts. A million delayed records are some
hundreds of arrays of 44 bytes a record.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from queue_tables.groups.record_states import NEVER, OPEN, OpenRows, Stage

HEAP_ROWS = 4_096
"""Size at which the heap becomes a run."""
_ROW: Final = np.dtype(
    [
        ("due", "i8"),
        ("offset", "i8"),
        ("attempt", "i4"),
        ("first_at", "i8"),
        ("key_hash", "i8"),
        ("expires_at", "i8"),
    ]
)


class DelayedRecord(NamedTuple):
    """A record that rests; compares by the time at which it is due. Times in microseconds."""

    due: int
    offset: int
    attempt: int
    """The last one made; 0: never delivered yet."""
    first_at: int = 0
    key_hash: int = 0
    expires_at: int = NEVER


@dataclass(slots=True)
class _Run:
    rows: npt.NDArray[Any]
    at: int = 0

    def front(self) -> DelayedRecord:
        return DelayedRecord(*self.rows[self.at].tolist())


class DelayedRecords:
    """Records by due time. Each offset is in it at most once: its owner sees to that."""

    def __init__(self) -> None:
        self._heap: list[DelayedRecord] = []
        self._runs: list[tuple[DelayedRecord, int, _Run]] = []
        """A heap of (front, number, run)."""
        self._count = 0
        self._made = 0

    def __len__(self) -> int:
        return self._count

    def push(self, record: DelayedRecord) -> None:
        """Add one."""
        heapq.heappush(self._heap, record)
        self._count += 1
        if len(self._heap) >= HEAP_ROWS:
            rows = np.array(self._heap, _ROW)
            self._heap = []
            self._add_run(rows)

    def push_open(self, rows: OpenRows) -> None:
        """Add the rows of `record_states.OPEN` that are delayed."""
        rows = rows[rows["stage"] == Stage.PARKED]
        if len(rows):
            mine = np.empty(len(rows), _ROW)
            mine["due"] = rows["until"]
            for name in ("offset", "attempt", "first_at", "key_hash", "expires_at"):
                mine[name] = rows[name]
            self._count += len(mine)
            self._add_run(mine)

    @property
    def next_due(self) -> int | None:
        """When the first one is due; None if there is none."""
        front = self._front()
        return None if front is None else front.due

    def later_than(self, now: int) -> int:
        """How many are not due at `now`."""
        resting = sum(record.due > now for record in self._heap)
        for _, _, run in self._runs:
            dues = run.rows["due"][run.at :]
            resting += len(dues) - int(np.searchsorted(dues, now, side="right"))
        return resting

    def pop_due(self, now: int) -> DelayedRecord | None:
        """Take the one that is due for longest, if any is."""
        front = self._front()
        if front is None or front.due > now:
            return None
        self._count -= 1
        if self._heap and self._heap[0] is front:
            return heapq.heappop(self._heap)
        _, number, run = self._runs[0]
        run.at += 1
        if run.at < len(run.rows):
            heapq.heapreplace(self._runs, (run.front(), number, run))
        else:
            heapq.heappop(self._runs)
        return front

    def find(self, offset: int) -> DelayedRecord | None:
        """The record of that offset, if it is here. Looks at all: a few ms for a million."""
        for record in self._heap:
            if record.offset == offset:
                return record
        for _, _, run in self._runs:
            found = np.flatnonzero(run.rows["offset"][run.at :] == offset)
            if len(found):
                return DelayedRecord(*run.rows[run.at + int(found[0])].tolist())
        return None

    def drop_below(self, offset: int) -> list[DelayedRecord]:
        """Forget, and return, the records below `offset`: they do not exist any more."""
        kept = self.to_open()
        gone = kept[kept["offset"] < offset]
        if len(gone):
            self._heap, self._runs, self._count = [], [], 0
            self.push_open(kept[kept["offset"] >= offset])
        return [
            DelayedRecord(row[3], row[0], row[1], row[4], row[5], row[6]) for row in gone.tolist()
        ]

    def to_open(self) -> OpenRows:
        """All of them as rows of `record_states.OPEN`, sorted by offset."""
        parts = [run.rows[run.at :] for _, _, run in self._runs]
        parts.append(np.array(self._heap, _ROW))
        mine = np.concatenate(parts)
        rows = np.empty(len(mine), OPEN)
        rows["stage"], rows["until"] = Stage.PARKED, mine["due"]
        rows["member"] = rows["reason"] = ""
        for name in ("offset", "attempt", "first_at", "key_hash", "expires_at"):
            rows[name] = mine[name]
        return rows[np.argsort(rows["offset"], kind="stable")]

    def _front(self) -> DelayedRecord | None:
        if not self._runs:
            return self._heap[0] if self._heap else None
        front = self._runs[0][0]
        return self._heap[0] if self._heap and self._heap[0] < front else front

    def _add_run(self, rows: npt.NDArray[Any]) -> None:
        run = _Run(rows[np.lexsort((rows["offset"], rows["due"]))])
        self._made += 1
        heapq.heappush(self._runs, (run.front(), self._made, run))
