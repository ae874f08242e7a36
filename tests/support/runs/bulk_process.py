"""A run of a bulk writer, as a process that can be killed: the tasks' files, then the commit.

    python -m tests.support.runs.bulk_process --root DIR --topic-id T --run r1 --batch 3 \
        [--crash-at bulk.committed]

Writes two files of records `<batch>-<n>` and commits them, as the sink does on behalf of Spark.
"""

from __future__ import annotations

import argparse
import sys

from lakequeue.clock import hour_of, wall_micros
from lakequeue.records import Stamp
from lakequeue.steps import Step, arm, reach
from queue_tables.files.parquet import write_data_file
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import INBOX
from queue_tables.shards.bulk import BulkFile, commit_bulk, shard_of
from queue_tables.shards.shards import shard_path
from tests.support.data.rows import rows_of

WRITER = "spark-query"
ROWS = 10
"""Of each of the two files."""


def write_files(root: QueueRoot, topic_id: str, run: str, batch: int) -> list[BulkFile]:
    """What two tasks write."""
    arrival, shard = wall_micros(), shard_of(WRITER, run)
    files = []
    for task in range(2):
        stamp = Stamp(arrival + task)
        values = [f"{batch}-{task * ROWS + n}".encode() for n in range(ROWS)]
        columns = {
            "topic_id": [topic_id] * ROWS,
            "partition": [0] * ROWS,
            "value": values,
            "headers": [[]] * ROWS,
            "timestamp": [arrival] * ROWS,
            "request": ["0"] * ROWS,
            "atomic": [False] * ROWS,
            "bytes": [len(value) for value in values],
            "stamp": [stamp] * ROWS,
            "row": list(range(ROWS)),
        }
        rows = rows_of(INBOX, columns, without=("hour",))
        hour = {"hour": hour_of(stamp)}
        add = write_data_file(root.store, shard_path("inbox", shard), rows, hour, INBOX)
        reach(Step.BULK_DATA_WRITTEN)
        files.append(BulkFile(shard, add, stamp, ROWS, sum(map(len, values))))
    return files


def values_of(batches: int) -> list[bytes]:
    """What these many batches hold, in order."""
    return [f"{batch}-{n}".encode() for batch in range(batches) for n in range(2 * ROWS)]


def run_batch(root: QueueRoot, topic_id: str, run: str, batch: int) -> bool:
    """Write and commit; whether anything was added."""
    files = write_files(root, topic_id, run, batch)
    return commit_bulk(root, WRITER, run, batch, files) is not None


def main() -> int:
    """One batch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True)
    parser.add_argument("--topic-id", required=True)
    parser.add_argument("--run", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--crash-at")
    args = parser.parse_args()
    arm(args.crash_at)
    added = run_batch(QueueRoot.existing(args.root), args.topic_id, args.run, args.batch)
    sys.stdout.write(f"{added}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
