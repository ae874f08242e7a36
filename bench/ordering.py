"""Ordering throughput: records of 1 kB, deduplication on, so many ids in the window already.

    python -m bench.ordering [--records 640000] [--known-ids 1000000] [--json FILE]

Fills a new root, then runs the real order job (`jobs.order --available-now`) over the backlog.
The rate is of the batches after the first, from the end of the first to the end of the last:
all of it, from looking at the shards to the durable commit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench import machine
from bench.inbox import inbox_rows
from coordination.embedded import EmbeddedZooKeeper
from lakequeue.clock import HybridClock
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import ShardWriter
from queue_tables.topics import TopicStore
from tests.support.runs.order_process import Orderer

GROUP = 2_000
PARTITIONS = 8
BATCH_BYTES = 80_000_000


def fill(
    root: QueueRoot,
    clock: HybridClock,
    records: int,
    value_bytes: int,
    name: str,
    deliver_at: int | None = None,
) -> None:
    """Append `records` to two shards, in groups; `deliver_at` in microseconds since the epoch."""
    topic_id = TopicStore(root).create("bench", partitions=PARTITIONS)[0].topic_id
    shards = [ShardWriter.create(root, "inbox", f"bench-{i}") for i in range(2)]
    values = pa.array([os.urandom(value_bytes) for _ in range(64)], pa.binary())
    for start in range(0, records, GROUP):
        count = min(GROUP, records - start)
        rows = inbox_rows(
            topic_id,
            PARTITIONS,
            values.take(pa.array([i % len(values) for i in range(count)])),
            [f"{name}-{start + i:010d}" for i in range(count)],
            deliver_at,
        )
        shards[start // GROUP % 2].append(rows, clock.next())


def order_all(root: QueueRoot) -> None:
    """Order what is there, without Spark: it is not what is measured."""
    Orderer(root, 1, BATCH_BYTES, ids=10**9).drain()


def run_job(root: QueueRoot, hosts: str, work: Path) -> list[dict[str, Any]]:
    """Run the order job to its end; its batches."""
    command = [sys.executable, "-m", "jobs.order", "--root", root.uri, "--zookeeper", hosts]
    command += ["--available-now", "--log-level", "debug", "--work-dir", str(work)]
    env = os.environ | {"LAKEQUEUE_ORDER__MAX_BATCH_BYTES": str(BATCH_BYTES)}
    done = subprocess.run(command, env=env, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"the order job ended with {done.returncode}:\n{done.stderr[-4_000:]}")
    events = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    return [event for event in events if event["event"] == "batch.ordered"]


def main() -> None:
    """Fill, run, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=640_000)
    parser.add_argument("--value-bytes", type=int, default=1_000)
    parser.add_argument("--known-ids", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    machine.announce()
    with tempfile.TemporaryDirectory() as folder:
        root = QueueRoot.open(f"{folder}/queue")
        clock = HybridClock()
        fill(root, clock, args.known_ids, 8, "known")
        order_all(root)
        fill(root, clock, args.records, args.value_bytes, "new")
        server = EmbeddedZooKeeper(Path(folder) / "zookeeper")
        server.start()
        try:
            batches = run_job(root, server.hosts, Path(folder) / "work")
        finally:
            server.stop()
    ends = [datetime.fromisoformat(b["timestamp"]) for b in batches]
    rows = sum(b["rows"] for b in batches[1:])
    seconds = (ends[-1] - ends[0]).total_seconds() if len(ends) > 1 else float("nan")
    result = {
        "records": sum(b["rows"] for b in batches),
        "value_bytes": args.value_bytes,
        "known_ids": args.known_ids,
        "batches": len(batches),
        "records_per_s": round(rows / seconds),
        "mb_per_s": round(rows * args.value_bytes / seconds / 1e6, 1),
        "batch_ms": {
            part: [b[f"{part}_ms"] for b in batches]
            for part in ("numbering", "writing", "committing", "all")
        },
    }
    print(json.dumps(result, indent=2))
    if args.json:
        args.json.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
