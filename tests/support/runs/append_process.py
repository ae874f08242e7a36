"""A process that appends: `python -m tests.support.runs.append_process …`, for crash and race
tests.

Prints one line per acknowledged append, flushed, so that a test knows what was promised.
"""

from __future__ import annotations

import argparse
import sys

from lakequeue.errors import CommitConflict
from lakequeue.records import Stamp
from lakequeue.steps import arm
from queue_tables.delta.actions import Txn
from queue_tables.delta.table import TableLog
from queue_tables.files.parquet import write_data_file
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import TOPICS
from queue_tables.shards.shards import ShardWriter
from tests.support.data.rows import inbox_rows, rows_of

FIRST_STAMP = 1_700_000_000_000_000


def append_groups(root: QueueRoot, count: int) -> None:
    """Be an ingest node: `count` groups of three records into a new inbox shard."""
    writer = ShardWriter.create(root, "inbox", "crash")
    for i in range(count):
        values = [f"{i}-{j}".encode() for j in range(3)]
        writer.append(inbox_rows(values), Stamp(FIRST_STAMP + i))
        print(FIRST_STAMP + i, flush=True)


def race_on_topics(root: QueueRoot, name: str, count: int) -> None:
    """Commit `count` rows to a table that another process commits to as well."""
    log = TableLog(root.store, "topics").open()
    for i in range(count):
        rows = rows_of(TOPICS, {"topic": [name], "version": [i]}, without=())
        add = write_data_file(root.store, "topics", rows, {}, TOPICS)
        while True:
            try:
                version = log.commit([Txn(name, i), add])
            except CommitConflict:
                continue
            print(version, flush=True)
            break


def main() -> None:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["groups", "race"])
    parser.add_argument("--root", required=True)
    parser.add_argument("--name", default="")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--crash-at")
    args = parser.parse_args()
    root = QueueRoot.open(args.root)
    arm(args.crash_at)
    if args.what == "groups":
        append_groups(root, args.count)
    else:
        print("ready", flush=True)
        sys.stdin.readline()  # start together
        race_on_topics(root, args.name, args.count)


if __name__ == "__main__":
    main()
