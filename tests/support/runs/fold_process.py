"""The offsets job without Spark, as a process that can be killed.

python -m tests.support.runs.fold_process --root DIR --epoch 3 [--crash-at fold.committed:2]
"""

from __future__ import annotations

import argparse
import sys
from typing import cast

import pyarrow as pa
from pyspark.sql import SparkSession

from jobs.folding.offsets_job import OffsetsJob
from jobs.rows.key_projection import FACT_ROWS, fact_rows
from jobs.source.batch_manifest import BatchManifest
from jobs.source.shard_scanner import ShardScanner
from lakequeue.errors import LeadershipLost
from lakequeue.records import Epoch
from lakequeue.steps import arm
from queue_tables.root import QueueRoot

NO_SPARK = cast(SparkSession, None)
"""The work of the offsets job never touches it."""


class Folder:
    """A leader's term, run by hand."""

    def __init__(self, root: QueueRoot, epoch: int, max_bytes: int = 1) -> None:
        self.root = root
        self.job = OffsetsJob(root)
        self.scanner = ShardScanner(root, "journal", max_bytes)
        self.job.begin(Epoch(epoch))
        self.scanner.begin(self.job.state())

    def step(self) -> bool:
        """Fold one cut; False if there is nothing to fold."""
        start = self.scanner.marks()
        end = self.scanner.next_end()
        if end is None:
            return False
        seen = self.scanner.between(start, end)
        part = BatchManifest.of(seen)
        facts = fact_rows(self.root.store, part.files, part.fences)
        rows = pa.Table.from_batches(facts, FACT_ROWS)
        self.job.fold(rows)
        self.scanner.done(end)
        return True

    def drain(self) -> None:
        """Fold all there is."""
        while self.step():
            pass


def main() -> int:
    """Run to the end; 3 when a newer leader has committed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True)
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("--crash-at")
    args = parser.parse_args()
    arm(args.crash_at)
    try:
        Folder(QueueRoot.open(args.root), args.epoch).drain()
    except LeadershipLost as lost:
        sys.stderr.write(f"{lost}\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
