"""What the queue asks of an object store: requests a second by role, their latency, what they cost.

    python -m bench.storage.object_store [--commits 3] [--seconds 60]

Runs the whole queue on an S3 server (moto's, on this machine) with a producer that makes a fixed
number of commits a second and one consumer that follows. The numbers of requests are those of any
S3; the times are this server's.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

import httpx2
import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from bench import machine
from lakequeue import Consumer, Producer
from lakequeue.client.admin import Admin
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions
from tools.local_s3 import BUCKET, local_s3

MONTH_S = 30 * 24 * 3600
DOLLARS = {"put": 5e-6, "create": 5e-6, "list": 5e-6, "get": 4e-7, "head": 4e-7, "delete": 0.0}
"""A request's price: $0.005 a thousand for PUT and LIST, $0.0004 for GET and HEAD, which is what S3
Standard takes in its cheapest regions."""

Counts = dict[tuple[str, str], tuple[float, float]]
"""(role, operation) → (requests, seconds)"""


def counts(cluster: Cluster) -> Counts:
    """What each role has asked so far."""
    found: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    roles = {
        "ingest": cluster.ingest_urls,
        "consumer service": cluster.consumer_urls,
        "driver": cluster.driver_urls,
    }
    for role, urls in roles.items():
        for url in urls:
            text = httpx2.get(f"{url}/metrics", timeout=30).text
            for family in text_string_to_metric_families(text):
                if family.name != "lakequeue_storage_request_seconds":
                    continue
                for sample in family.samples:
                    at = found[role, sample.labels["operation"]]
                    at[0 if sample.name.endswith("_count") else 1] += sample.value
    return {name: (a, b) for name, (a, b) in found.items()}


def spent(before: Counts, after: Counts) -> Counts:
    """The difference."""
    return {
        name: (a - before.get(name, (0.0, 0.0))[0], s - before.get(name, (0.0, 0.0))[1])
        for name, (a, s) in after.items()
    }


def table(found: Counts, seconds: float) -> str:
    """Markdown: requests a second, mean time, dollars a month; one row a role and operation."""
    lines = ["| role | operation | requests/s | mean ms | $/month |", "|---|---|---|---|---|"]
    total = dollars = 0.0
    for (role, operation), (number, took) in sorted(found.items()):
        if not number or operation == "sync":
            continue
        rate = number / seconds
        price = rate * MONTH_S * DOLLARS[operation]
        total, dollars = total + rate, dollars + price
        mean_ms = took / number * 1e3
        lines.append(f"| {role} | {operation} | {rate:.2f} | {mean_ms:.1f} | {price:.2f} |")
    return "\n".join([*lines, f"| all | | {total:.2f} | | {dollars:.2f} |"])


def produce(cluster: Cluster, per_s: float, seconds: float) -> list[float]:
    """Send one record per commit; send → acknowledged, ms."""
    taken = []
    start = time.monotonic()
    with Producer(cluster.ingest_urls, linger_ms=0) as producer:
        for n in range(int(per_s * seconds)):
            while (wait := start + n / per_s - time.monotonic()) > 0:
                time.sleep(wait)
            began = time.monotonic()
            producer.send("t", {"sent": time.time()}, partition=n % 4).result(60)
            taken.append((time.monotonic() - began) * 1e3)
    return taken


def follow(cluster: Cluster, stop: threading.Event, taken: list[float]) -> None:
    """Receive and acknowledge; send → received, ms."""
    with Consumer("t", group="g", urls=cluster.consumer_urls) as consumer:
        while not stop.is_set():
            for message in consumer.poll(0.5):
                taken.append((time.time() - message.value["sent"]) * 1e3)
                message.ack()


def measure(cluster: Cluster, per_s: float, seconds: float) -> str:
    """Idle, then at `per_s` commits a second."""
    with Admin(cluster.ingest_urls, cluster.consumer_urls, timeout_s=30) as admin:
        admin.create_topic("t", partitions=4)
    stop, received = threading.Event(), list[float]()
    follower = threading.Thread(target=follow, args=(cluster, stop, received))
    follower.start()
    produce(cluster, per_s, 5.0)  # warm
    time.sleep(5.0)
    before = counts(cluster)
    time.sleep(seconds)
    idle = spent(before, counts(cluster))
    received.clear()
    before = counts(cluster)
    acknowledged = produce(cluster, per_s, seconds)
    loaded = spent(before, counts(cluster))
    time.sleep(2.0)
    stop.set()
    follower.join()
    text = ["Idle, one consumer waiting:", "", table(idle, seconds), ""]
    text += [f"At {per_s:g} commits/s:", "", table(loaded, seconds), ""]
    return "\n".join([*text, latency(acknowledged, received)])


def latency(acknowledged: list[float], received: list[float]) -> str:
    """Percentiles."""
    rows = {"acknowledged": acknowledged, "received": received}
    return "\n".join(
        f"send → {name}: p50 {np.percentile(ms, 50):.0f} ms, p99 {np.percentile(ms, 99):.0f} ms"
        for name, ms in rows.items()
    )


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=float, default=3.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    args = parser.parse_args()
    machine.announce()
    with local_s3() as environ, tempfile.TemporaryDirectory() as folder:
        os.environ.update(environ)
        options = ClusterOptions(root=f"s3://{BUCKET}/queue", work_dir=Path(folder))
        with Cluster(options) as cluster:
            cluster.wait_ready()
            print(measure(cluster, args.commits, args.seconds))


if __name__ == "__main__":
    main()
