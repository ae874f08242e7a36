"""Refused rows and duplicates, committed to `rejects` before the log commit that passes them.

Nothing acknowledged vanishes without a row: by (shard, stamp, row) it stands in `log` or here. The
commit here comes first, so a leader that dies between the two has left rejects for a batch that
was never ordered. Judging those rows again in another batch could give another verdict (another
copy may come first, offsets may differ), so the commit also records its *plan*, the ends of the
cut. The next leader makes exactly that cut its first batch: the same rows over the same log come
out the same, and what is recorded already is not recorded twice. A leader commits its epoch here
as well as in `log`, or an old one that still lives could add to it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import structlog

from jobs.ordering.order_state import order_epoch, order_number
from jobs.ordering.reject_rows import Key
from jobs.rows.row_faults import RowFault
from lakequeue.clock import boot_seconds
from lakequeue.errors import (
    CommitConflict,
    LeadershipLost,
    RootUnusable,
    StorageUnavailable,
    TailLost,
)
from lakequeue.records import Epoch, ShardName, Stamp, Version
from queue_tables.delta.actions import Action, Add, Commit, Txn
from queue_tables.delta.maintenance import vacuumed
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.delta.storage_meter import METER
from queue_tables.delta.table import TableLog
from queue_tables.files.parquet import Rendered, read_data_file
from queue_tables.files.stats import FileStats
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import ORDER_TXN, PLANS
from queue_tables.schema.reasons import Fate, Reason, with_fate
from queue_tables.schema.schemas import REJECTS

log = structlog.get_logger("order")

_RECORDED = ("shard", "stamp", "row", "reason", "detail")

_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 5.0
_GIVE_UP_S = 60.0
"""A new process is tried then: this one may be at fault (a failed fsync, rights that it lost)."""


class StorageWait:
    """Tries again what storage refuses. It says so, and ends with the process."""

    def __init__(self) -> None:
        self.refused: str | None = None
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Whoever waits gives up."""
        self._stopping.set()

    def until_taken(
        self, put: Callable[[], None], path: str, first_refused: Callable[[], None]
    ) -> None:
        """Call `put` until it is taken. Raises its error after a minute, or if the process stops.

        A full disk is not waited for here: whoever supervises the process does.
        """
        pause, end = _PAUSE_S, boot_seconds() + _GIVE_UP_S
        while True:
            try:
                put()
            except (StorageUnavailable, RootUnusable) as error:
                if self.refused is None:
                    log.warning("rejects.refused", path=path, why=str(error))
                    self.refused = f"storage refuses {path}, and nothing is ordered: {error}"
                    first_refused()
                METER.retried()
                if boot_seconds() >= end or self._stopping.wait(pause):
                    raise
                pause = min(2 * pause, _LONGEST_PAUSE_S)
                continue
            if self.refused is not None:
                log.info("rejects.accepted", path=path)
            self.refused = None
            return


def fenced_commit(
    table: TableLog,
    actions: list[Action],
    info: Mapping[str, Any],
    epoch: Epoch,
    *,
    begins: bool = False,
) -> list[Commit]:
    """Commit under `epoch`, whatever maintenance does meanwhile.

    Returns the foreign commits that were met. Raises `LeadershipLost` if one of them is of a
    higher epoch: then nothing was committed, and this leader can never commit again. `begins`:
    the first commit of the term. An equal epoch is then another's (the ensemble was rebuilt and
    counts anew), and two leaders of one epoch would not stop each other. It is also raised when
    this leader slept so long that a vacuum may have deleted what it wrote for this commit, or that
    commits it has not seen are gone.
    """
    met: list[Commit] = []
    while True:
        newest = order_epoch(table.txns.get(ORDER_TXN, 0))
        if newest > epoch or (begins and newest == epoch):
            raise LeadershipLost(
                f"{table.path}: epoch {epoch} presented, {newest} current",
                hint="a newer leader orders; this process starts again as a standby",
            )
        try:
            table.commit(actions, info)
        except CommitConflict as conflict:
            met += conflict.commits
            if vacuumed([a for a in actions if isinstance(a, Add)], conflict.commits):
                raise LeadershipLost(
                    f"{table.path}: a vacuum came while this leader slept, and may have deleted"
                    " the files of this commit",
                    hint="this process starts again as a standby",
                ) from conflict
            continue
        except TailLost as lost:
            raise LeadershipLost(
                f"{table.path}: commits that this leader has not seen were cleaned up:"
                f" {lost.detail}",
                hint="this process starts again as a standby",
                stored=lost.stored,
            ) from lost
        return met


def unfinished_in(
    txns: Mapping[str, int], watermarks: Mapping[ShardName, Stamp]
) -> dict[ShardName, Stamp]:
    """In the txns of `rejects`: the ends of a cut that is not passed in `log` (`watermarks`)."""
    plan = PLANS.read(txns)
    # Only the newest plan can be unfinished: older ones were passed before it was made.
    return {shard: end for shard, end in plan.items() if end > watermarks.get(shard, 0)}


class RejectsTable:
    """The leader's handle of `rejects`."""

    def __init__(self, root: QueueRoot) -> None:
        self._root = root
        self._wait = StorageWait()
        self._table = TableLog(root.store, REJECTS.name, keep_files=False).open()

    def refresh(self) -> None:
        """See what others have committed."""
        self._table.open()

    @property
    def version(self) -> Version:
        """The newest version seen."""
        return self._table.version

    @property
    def epoch(self) -> Epoch:
        """The newest term that `rejects` records."""
        return order_epoch(self._table.txns.get(ORDER_TXN, 0))

    def begin(self, epoch: Epoch) -> None:
        """Shut out older leaders. The plan of an unfinished batch stays: it is in the txns."""
        info = {"epoch": epoch, "counter": 0, "rows": 0}
        fenced_commit(self._table, [Txn(ORDER_TXN, order_number(epoch, 0))], info, epoch)

    def unfinished(self, watermarks: Mapping[ShardName, Stamp]) -> dict[ShardName, Stamp] | None:
        """The cut of a batch that has its rejects here and is not passed in `log`."""
        return unfinished_in(self._table.txns, watermarks) or None

    @property
    def refused(self) -> str | None:
        """Why storage takes no file of `rejects` now; None: it does."""
        return self._wait.refused

    def stop(self) -> None:
        """Wait for storage no longer: the process ends."""
        self._wait.stop()

    def store(self, files: Sequence[Rendered], first_refused: Callable[[], None]) -> list[Add]:
        """Store files, durable; that storage refuses them is waited for.

        `first_refused` is called before that. Raises storage errors that last.
        """
        for file in files:
            path = f"{REJECTS.name}/{file.add.path}"
            put = partial(self._root.store.put, path, file.data)
            self._wait.until_taken(put, path, first_refused)
        return [file.add for file in files]

    def commit(self, adds: list[Add], ends: Mapping[ShardName, Stamp], number: int) -> None:
        """Record what was written for a batch that has these `ends`."""
        plan = [Txn(PLANS.name(shard), int(end)) for shard, end in ends.items()]
        epoch = order_epoch(number)
        rows = sum(FileStats(add.stats).records or 0 for add in adds)
        info = {"epoch": epoch, "counter": number - order_number(epoch, 0), "rows": rows}
        fenced_commit(self._table, [*adds, Txn(ORDER_TXN, number), *plan], info, epoch)

    def recorded(
        self, plan: Mapping[ShardName, Stamp], above: Mapping[ShardName, Stamp]
    ) -> dict[Key, str | None]:
        """The rows of an unfinished cut that stand here already, with the fault of each, if any."""
        found: dict[Key, str | None] = {}
        for add in load_snapshot(self._root.store, REJECTS.name).files.values():
            rows = read_data_file(self._root.store, REJECTS.name, add.path, _RECORDED)
            for row in rows.to_pylist():
                shard = row["shard"]
                if above.get(shard, 0) < row["stamp"] <= plan.get(shard, 0):
                    fault = _fault_in(row["reason"], row.get("detail"))
                    found[shard, row["stamp"], row["row"]] = fault
        return found


def _fault_in(reason: str, detail: str | None) -> str | None:
    """The fault of a row that was put aside, as it passes through Spark."""
    if reason not in with_fate(Fate.PUT_ASIDE):
        return None
    return RowFault(Reason(reason), detail or "").text()
