"""The thread that tells waiting requests which offsets their records got.

It follows `log` and `rejects`. While nobody waits it only keeps its place, one look a second and
no data file read, so that a request that comes now can start from here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import structlog

from ingest.commit.pending_offsets import PendingOffsets
from lakequeue.errors import LakequeueError, TailLost
from queue_rules.produce.outcomes import Outcome
from queue_tables.delta.actions import Commit
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import Tail
from queue_tables.files.parquet import read_data_file
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import WATERMARKS
from queue_tables.schema.reasons import Reason
from queue_tables.schema.schemas import LOG, REJECTS

_IDLE_S = 1.0
_ROW = ["shard", "stamp", "row"]

log = structlog.get_logger(__name__)


class OrderTail:
    """Settles the tickets of `pending_offsets` from the tables."""

    def __init__(
        self,
        root: QueueRoot,
        pending_offsets: PendingOffsets,
        draining: threading.Event,
        *,
        poll_s: float | None = None,
    ) -> None:
        """Once `draining` is set, whoever waits is answered "stored" at once."""
        self._draining = draining
        self._store = root.store
        self._pending_offsets = pending_offsets
        # A look at a local directory costs microseconds, at an object store a request.
        self._poll_s = poll_s or (0.01 if root.store.local_path else 0.05)
        self._stopping = False
        self._tails: tuple[Tail, Tail] | None = None
        """Of `log` and `rejects`; None: they could not be read, and records are taken without."""
        self._find_ends()
        self._thread = threading.Thread(target=self._run, name="order-tail", daemon=True)

    def start(self) -> Self:
        """Begin, in a thread of its own."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop, and let whoever still waits answer "stored"."""
        with self._pending_offsets.changed:
            self._stopping = True
            self._pending_offsets.changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        self._pending_offsets.give_up()

    def _find_ends(self) -> None:
        """Follow both tables from their ends on, as soon as they can be read."""
        self._tails = None
        try:
            self._tails = self._at_end(LOG.name), self._at_end(REJECTS.name)
        except (LakequeueError, OSError) as error:
            log.warning("order_tail.read_failed", error=str(error))

    def _at_end(self, table: str) -> Tail:
        newest = TableLog(self._store, table, keep_files=False).open().version
        return Tail(self._store, table, newest)

    def _run(self) -> None:
        pause = _IDLE_S
        while True:
            with self._pending_offsets.changed:
                if not self._stopping and (not len(self._pending_offsets) or pause < _IDLE_S):
                    self._pending_offsets.changed.wait(pause)
                if self._stopping:
                    return
            if self._draining.is_set():
                self._pending_offsets.give_up()
            pause = self._poll_s if len(self._pending_offsets) else _IDLE_S
            try:
                self._look()
            except TailLost:
                # Somebody cleaned up commits we had not read: who waits now is answered by the
                # timeout, "stored, not known to be ordered".
                log.warning("order_tail.restarted")
                self._find_ends()
            except (LakequeueError, OSError) as e:
                # Storage is away: the requests that wait run into their own timeout.
                log.warning("order_tail.failed", error=str(e))

    def _look(self) -> None:
        # `rejects` after `log`: then whatever was refused before a commit of `log` is known here
        # when that commit is judged.
        if self._tails is None:
            self._find_ends()
            return
        log_tail, rejects_tail = self._tails
        passed = log_tail.poll()
        refused = rejects_tail.poll()
        awaited = self._pending_offsets.awaited()
        if not awaited or not (passed or refused):
            return
        if passed:
            log_tail.make_durable()
        for commit in refused:
            for rows in self._rows(REJECTS.name, commit, awaited, _REJECTED):
                self._pending_offsets.refused(
                    (r["shard"], r["stamp"], r["row"], _refusal(r)) for r in rows.to_pylist()
                )
        for commit in passed:
            self._settle(commit, awaited)

    def _settle(self, commit: Commit, awaited: dict[str, set[int]]) -> None:
        watermarks = {str(n): int(at) for n, at in WATERMARKS.read(commit.txns).items()}
        if not any(min(stamps) <= watermarks.get(shard, -1) for shard, stamps in awaited.items()):
            return
        found: dict[tuple[str, int], dict[int, Outcome]] = {}
        for rows in self._rows(LOG.name, commit, awaited, [*_ROW, "partition", "offset"]):
            for r in rows.to_pylist():
                outcome = Outcome(r["partition"], r["offset"])
                found.setdefault((r["shard"], r["stamp"]), {})[r["row"]] = outcome
        self._pending_offsets.passed(watermarks, found)

    def _rows(
        self, table: str, commit: Commit, awaited: dict[str, set[int]], columns: list[str]
    ) -> Iterable[pa.Table]:
        """The rows of a commit that somebody may wait for."""
        if not commit.appends:
            return
        shards = pa.array(list(awaited), pa.string())
        stamps = pa.array(sorted({s for stamps in awaited.values() for s in stamps}), pa.int64())
        for add in commit.adds:
            rows = read_data_file(self._store, table, add.path, columns)
            mask = pc.and_(
                pc.is_in(rows["shard"], value_set=shards), pc.is_in(rows["stamp"], value_set=stamps)
            )
            yield rows.filter(mask)


_REJECTED = [*_ROW, "partition", "reason", "original_partition", "original_offset"]


def _refusal(row: dict[str, Any]) -> Outcome:
    if row["reason"] == Reason.DUPLICATE:
        partition = row["original_partition"]
        return Outcome(
            row["partition"] if partition is None else partition, row["original_offset"], True
        )
    return Outcome(row["partition"], None, False, row["reason"])
