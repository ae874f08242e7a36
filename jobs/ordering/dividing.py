"""Divides a batch that fails for what is in it, so that sound parts are committed on the way.

A part is what comes up to some stamp, of all shards: a shorter cut of the same rows, in the same
order. A commit of a shard stays whole, and so do its requests, and writes of Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import structlog

from lakequeue.errors import CorruptTable, TailLost
from lakequeue.records import ShardName, Stamp
from queue_tables.delta.stamps import sound_stamp
from queue_tables.delta.store import Store
from queue_tables.delta.tail import Tail, find_version
from queue_tables.log.writer import SourceFiles
from queue_tables.shards.shards import shard_path

log = structlog.get_logger("order")

SLICE_ROWS = 500
"""Rows of a part, about: to search it takes a fraction of a second."""


class Divisible(Exception):
    """Rows fail together, or wait together, and may be tried in parts."""

    def __init__(
        self,
        rows: pa.Table,
        cuts: Sequence[Stamp],
        sources: SourceFiles,
        least_rows: int | None = None,
    ) -> None:
        super().__init__(f"{rows.num_rows} rows")
        self.rows = rows
        """`PROJECTED`; the rows that were found guilty have their fault."""
        self.cuts = cuts
        """Stamps at which they can be divided, rising; there is one."""
        self.sources = sources
        """The files that were read for them."""
        self._least_rows = SLICE_ROWS if least_rows is None else least_rows

    def slices(self) -> list[pa.Table]:
        """Parts of about `SLICE_ROWS` rows (or `least_rows`), in cut order; of more where nothing
        can be divided."""
        stamps = self.rows["stamp"].to_numpy()
        ordered = np.sort(stamps)
        ends: list[int] = []
        taken = 0
        for cut in self.cuts:
            before = int(np.searchsorted(ordered, cut, "right"))
            if before - taken >= self._least_rows:
                ends.append(int(cut))
                taken = before
        part = np.searchsorted(np.asarray(ends, np.int64), stamps, "left")
        found = [self.rows.filter(pa.array(part == n)) for n in range(len(ends) + 1)]
        return [rows for rows in found if rows.num_rows]


def cuts_of(rows: pa.Table, store: Store) -> list[Stamp]:
    """Stamps at which `rows` (`PROJECTED`) can be divided; [] if there are none, or none known."""
    stamps = rows["stamp"].to_numpy()
    shards = np.asarray(rows["shard"].to_pylist(), object)
    found: set[Stamp] = set()
    inside: list[tuple[int, Stamp]] = []
    try:
        for name in dict.fromkeys(shards.tolist()):
            mine = np.unique(stamps[shards == name])
            for begin, end in _commits(store, ShardName(name), int(mine[0]), int(mine[-1])):
                found.add(end)
                first = mine[np.searchsorted(mine, begin, "right") :][:1]
                # Files of one commit have stamps of their own, up to the commit's.
                if len(first) and first[0] < end:
                    inside.append((int(first[0]), end))
    except (CorruptTable, TailLost, FileNotFoundError) as error:
        log.warning("batch.not_divided", why=str(error))
        return []
    whole = [s for s in sorted(found) if not any(begin <= s < end for begin, end in inside)]
    low, high = int(stamps.min()), int(stamps.max())
    return [cut for cut in whole if low <= cut < high]


def _commits(
    store: Store, shard: ShardName, first: int, last: int
) -> Iterator[tuple[Stamp, Stamp]]:
    """(stamp of the commit before, stamp) of each commit from the one of `first` to that of `last`.

    Stamps are those of rows.
    """
    path = shard_path("inbox", shard)
    tail = Tail(store, path, find_version(store, path, first - 1, exact=False))
    before = Stamp(0)
    while commits := tail.poll(1_000):
        for commit in commits:
            stamp = sound_stamp(commit) or Stamp(0)
            if stamp >= first:
                yield before, stamp
            before = max(before, stamp)
            if stamp >= last:
                return
