"""The thread that tells waiting requests which offsets their records got.

It follows `log` and `rejects`. While nobody waits it only keeps its place, one look a second and
no data file read, so that a request that comes now can start from here.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import structlog

from ingest.commit.pending_offsets import PendingOffsets
from lakequeue.clock import boot_seconds
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
PATIENCE_S = 10.0
"""A commit whose files cannot be read for so long is passed over: those behind it wait for it."""
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
        self._refused: deque[Commit] = deque()
        self._passed: deque[Commit] = deque()
        """Read, and not told yet: a tail gives each commit once, and its files may be away."""
        self._away_since: float | None = None
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
        self._drop_untold()
        try:
            ends = self._end_of(LOG.name), self._end_of(REJECTS.name)
        except (LakequeueError, OSError) as error:
            log.warning("order_tail.read_failed", error=str(error))
            return
        ordered, refused = (Tail(self._store, end.path, end.version) for end in ends)
        self._tails = ordered, refused
        # Nobody sees those commits any more: who waits for what they have ordered is told no more
        # than that it is stored.
        self._pending_offsets.passed(_watermarks(ends[0].txns), {})

    def _end_of(self, table: str) -> TableLog:
        return TableLog(self._store, table, keep_files=False).open()

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
                # Somebody cleaned up commits we had not read.
                log.warning("order_tail.restarted")
                self._find_ends()
            except (LakequeueError, OSError) as e:
                # Storage is away: it is looked at again, while the requests wait.
                log.warning("order_tail.failed", error=str(e))
            except Exception:
                # Nobody else would answer those who wait.
                log.exception("order_tail.failed")

    def _look(self) -> None:
        # `rejects` after `log`: then whatever was refused before a commit of `log` is known here
        # when that commit is judged.
        if self._tails is None:
            self._find_ends()
            return
        log_tail, rejects_tail = self._tails
        self._passed += log_tail.poll()
        self._refused += rejects_tail.poll()
        awaited = self._pending_offsets.awaited()
        if not awaited:
            self._drop_untold()
        if not (self._passed or self._refused):
            return
        if self._passed:
            log_tail.make_durable()
        while self._refused:
            self._tell(self._refused, lambda commit: self._refuse(commit, awaited))
        while self._passed:
            self._tell(self._passed, lambda commit: self._settle(commit, awaited))

    def _drop_untold(self) -> None:
        """Nobody waits for it, or it is not known what came after it."""
        self._refused.clear()
        self._passed.clear()
        self._away_since = None

    def _tell(self, untold: deque[Commit], tell: Callable[[Commit], None]) -> None:
        """Tell of the first one; raises, and keeps it, if its files cannot be read now."""
        try:
            tell(untold[0])
        except Exception as error:
            now = boot_seconds()
            self._away_since = self._away_since or now
            if now - self._away_since < PATIENCE_S:
                raise
            log.warning("order_tail.commit_skipped", version=untold[0].version, error=str(error))
            # Whoever waits for what it orders hears that it is stored; that no file can say more.
            self._pending_offsets.passed(_watermarks(untold[0].txns), {})
        untold.popleft()
        self._away_since = None

    def _refuse(self, commit: Commit, awaited: dict[str, set[int]]) -> None:
        for rows in self._rows(REJECTS.name, commit, awaited, _REJECTED):
            self._pending_offsets.refused(
                (r["shard"], r["stamp"], r["row"], _refusal(r)) for r in rows.to_pylist()
            )

    def _settle(self, commit: Commit, awaited: dict[str, set[int]]) -> None:
        watermarks = _watermarks(commit.txns)
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


def _watermarks(txns: Mapping[str, int]) -> dict[str, int]:
    """Shard → stamp; a commit of `rejects` has none."""
    return {str(n): int(at) for n, at in WATERMARKS.read(txns).items()}


_REJECTED = [*_ROW, "partition", "reason", "original_partition", "original_offset"]


def _refusal(row: dict[str, Any]) -> Outcome:
    if row["reason"] == Reason.DUPLICATE:
        partition = row["original_partition"]
        return Outcome(
            row["partition"] if partition is None else partition, row["original_offset"], True
        )
    return Outcome(row["partition"], None, False, row["reason"])
