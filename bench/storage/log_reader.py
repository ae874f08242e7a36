"""Draining the log reader alone: 1,000,000 records of 1 kB over 8 partitions, polls of 500.

Arrow tables only, no HTTP and no JSON: the share of a drain that reading takes.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from bench import machine
from bench.storage.log_writer import PARTITIONS, RECORDS, VALUE_BYTES, fill
from lakequeue.records import Offset, Partition, TopicId
from queue_tables.delta.actions import Txn
from queue_tables.delta.table import TableLog
from queue_tables.log.reader import LogReader
from queue_tables.log.writer import write_log_files
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import offset_mark


def order(root: QueueRoot, batches: int) -> dict[int, int]:
    """Commit `batches` of 80,000 records; the end offset of each partition."""
    plan = fill(root, random.Random(1), random_values=False)
    log = TableLog(root.store, "log").open()
    counts = {
        partition: pc.sum(pc.equal(plan.column("partition"), partition)).as_py()
        for partition in range(PARTITIONS)
    }
    within = [n for count in counts.values() for n in range(count)]
    at = plan.schema.get_field_index("offset")
    for batch in range(batches):
        offsets = pa.array(within, pa.int64())
        starts = pa.array(
            [batch * count for count in counts.values() for _ in range(count)], pa.int64()
        )
        numbered = plan.set_column(at, "offset", pc.add(offsets, starts))
        ends = {p: (batch + 1) * count for p, count in counts.items()}
        adds = write_log_files(root.uri, numbered)
        log.commit([*adds, *(Txn(offset_mark("t1", p), end) for p, end in ends.items())])
    return ends


def main() -> None:
    """Print records/s and MB/s of a drain, partition after partition and in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=13)
    parser.add_argument("--poll", type=int, default=500)
    arguments = parser.parse_args()
    machine.announce()
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as folder:
        root = QueueRoot.open(str(Path(folder) / "root"))
        ends = order(root, arguments.batches)
        total = arguments.batches * RECORDS
        for way in ("in turns", "one after another"):
            reader = LogReader(root)
            at = dict.fromkeys(ends, 0)
            start, cpu = time.perf_counter(), time.process_time()
            polls = 0
            while any(at[p] < ends[p] for p in ends):
                for p in [p for p in ends if at[p] < ends[p]]:
                    rows = reader.read_range(
                        TopicId("t1"), Partition(p), Offset(at[p]), arguments.poll
                    ).num_rows
                    at[p] += rows
                    polls += 1
                    if way != "in turns":
                        break
            took, cpu = time.perf_counter() - start, time.process_time() - cpu
            print(
                f"{way}: {total:,} records in {took:.2f} s ({cpu:.2f} s of CPU), "
                f"{total / took:,.0f} records/s, {total * VALUE_BYTES / took / 1e6:.0f} MB/s, "
                f"{took / polls * 1e6:.0f} µs a poll"
            )


if __name__ == "__main__":
    main()
