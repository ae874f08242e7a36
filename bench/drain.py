"""Drain throughput: 1,000,000 records of 1 kB that are in `log` already, to one stream consumer.

The log is filled by the ordering and writing functions of the order job. Then the queue is
started on it, and one consumer of the SDK reads everything from earliest and acks as it goes: HTTP,
JSON, leases and durable acks included.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TypedDict

from bench.ordering import PARTITIONS, fill, order_all
from lakequeue import Consumer
from lakequeue.clock import HybridClock
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions
from queue_tables.root import QueueRoot

VALUE_BYTES = 1_000


class Drained(TypedDict):
    """The figures of one run."""

    records: int
    seconds: float
    records_per_s: float
    mb_per_s: float


def measure(folder: Path, records: int) -> Drained:
    """Fill, start, drain; the rate is from the first record received to the last one acked."""
    root = QueueRoot.open(str(folder / "queue"))
    fill(root, HybridClock(), records, VALUE_BYTES, "drain")
    order_all(root)
    with Cluster(ClusterOptions(root=str(folder / "queue"))) as cluster:
        cluster.wait_ready()
        with Consumer(
            "bench", group="drain", urls=cluster.consumer_urls, max_poll_records=5_000
        ) as consumer:
            batch = consumer.poll(30.0, 5_000)
            began, received = time.monotonic(), 0
            reached = dict.fromkeys(range(PARTITIONS), -1)
            while received < records:
                for message in batch:
                    if message.offset != reached[message.partition] + 1:
                        raise RuntimeError(f"offset {message.offset} after {reached}")
                    reached[message.partition] = message.offset
                    message.ack()
                received += len(batch)
                if received < records and not (batch := consumer.poll(30.0, 5_000)):
                    raise RuntimeError(f"nothing came for 30 s after {received} records")
            consumer.commit()
            seconds = time.monotonic() - began
    return {
        "records": received,
        "seconds": round(seconds, 1),
        "records_per_s": round(received / seconds),
        "mb_per_s": round(received * VALUE_BYTES / seconds / 1e6, 1),
    }
