"""The order job without Spark, as a process that can be killed: its own parts, called in a row.

    python -m tests.support.runs.order_process --root DIR --epoch 3 [--crash-at order.committed:2]
        [--max-bytes 2000] [--stay]

Looks, cuts, reads projected rows and orders them, batch after batch, until nothing is left (with
`--stay`: until SIGTERM); prints one JSON line a batch. `tests/faults` kills it at every step; the
same with Spark around it is `test_order_driver.py`.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from functools import partial

import pyarrow as pa

from jobs.ordering.order_batch import OrderTerm
from jobs.ordering.order_state import OrderState
from jobs.rows.key_projection import project_rows
from jobs.rows.projected_rows import SENT
from jobs.source.batch_manifest import BatchManifest, pieces_of
from jobs.source.leader_state import LeaderState
from jobs.source.shard_scanner import ShardScanner
from lakequeue.clock import WallClock, wall_micros
from lakequeue.errors import LeadershipLost
from lakequeue.records import Epoch
from lakequeue.steps import Step, arm, reach
from queue_tables.log.writer import SourceFiles
from queue_tables.root import QueueRoot

_PAUSE_S = 0.02


class Orderer:
    """A leader's term, run by hand. Tests in one process use it, too."""

    def __init__(
        self,
        root: QueueRoot,
        epoch: int,
        max_bytes: int = 1 << 30,
        ids: int = 10**6,
        wall: WallClock = wall_micros,
        *,
        whole: bool = False,
    ) -> None:
        """`whole`: read files as the driver reads those of a small batch; else as tasks do."""
        self.state = OrderState(root, ids)
        self.term = OrderTerm(self.state, Epoch(epoch), wall)
        self.root = root
        plan = self.term.begin()
        self.scanner = ShardScanner(root, "inbox", max_bytes)
        self._max_bytes = max_bytes
        self._whole = whole
        self._suspects: set[str] = set()
        self.scanner.begin(LeaderState(Epoch(epoch), self.state.watermarks(), plan))
        self.state.warm()

    def plan(self) -> pa.Table | None:
        """The projected rows of the next cut, or None."""
        pieces = self.cut()
        return pa.concat_tables(self.read(p)[0] for p in pieces) if pieces else None

    def cut(self) -> list[BatchManifest]:
        """The pieces of the next cut; [] if there is nothing to order."""
        start = self.scanner.marks()
        end = self.scanner.next_end()
        if end is None:
            return []
        return pieces_of(self.scanner.between(start, end), self._max_bytes)

    def read(self, piece: BatchManifest) -> tuple[pa.Table, SourceFiles | None]:
        """The projected rows of a piece."""
        if self._whole:
            sources = SourceFiles(self.root.store)
            sources.load([f"inbox/{file.shard}/{file.path}" for file in piece.files])
            return pa.Table.from_batches(
                project_rows(sources, piece.files, self._suspects), schema=SENT
            ), sources
        return pa.Table.from_batches(
            project_rows(self.root.store, piece.files, self._suspects), schema=SENT
        ), None

    def tell(self) -> None:
        """Let the source know which shards wait."""
        held = {shard: one.stamp for shard, one in self.term.blocked.items()}
        self.scanner.begin(LeaderState(self.term.epoch, self.state.watermarks(), None, held))

    def step(self) -> dict[str, int] | None:
        """Order one cut; None if there is nothing to order."""
        pieces = self.cut()
        if not pieces:
            return None
        parts = [partial(self.read, piece) for piece in pieces]
        done = self.term.process_parts(parts, lambda _rows: None)
        self.scanner.done(self.scanner.marks())
        self.tell()
        if done is None:
            return {"rows": 0}
        return {"rows": done.rows, "ordered": done.ordered, "duplicates": done.duplicates}

    def drain(self) -> list[dict[str, int]]:
        """Order all there is."""
        batches = []
        while (batch := self.step()) is not None:
            batches.append(batch)
        return batches


def main() -> int:
    """Run to the end; 3 when a newer leader has committed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True)
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("--crash-at")
    parser.add_argument("--max-bytes", type=int, default=1 << 30)
    parser.add_argument("--stay", action="store_true")
    args = parser.parse_args()
    arm(args.crash_at)
    try:
        orderer = Orderer(QueueRoot.open(args.root), args.epoch, args.max_bytes)
        stop = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        while not stop.is_set():
            batch = orderer.step()
            if batch is not None:
                reach(Step.ORDER_NOTIFIED)
                sys.stdout.write(json.dumps(batch) + "\n")
                sys.stdout.flush()
            elif args.stay:
                stop.wait(_PAUSE_S)
            else:
                break
    except LeadershipLost as lost:
        sys.stderr.write(f"{lost}\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
