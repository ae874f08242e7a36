"""What a streaming query adds to the latency of the whole path.

    python -m bench.streaming [--seconds 60] [--low-latency]

A queue under 1,000 records/s of 1 kB; a consumer and a streaming query with `foreachBatch` get the
same records. What the query adds is the difference of the two. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench import latency
from lakequeue.client.admin import Admin
from lakequeue.processes.java import QUICK_COMPILER, find_java
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions
from tests.support.spark.spark_session import start_spark

PARTITIONS = 8
RATE, WARM_UP_S = 1_000, 30.0
LOW_LATENCY = {
    "spark.driver.extraJavaOptions": f"{QUICK_COMPILER} -XX:+UseSerialGC",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
}
"""What docs/spark.md says of a query on one machine with its checkpoint on the local disk."""


class Arrivals:
    """Notes when a streaming query gets each record."""

    def __init__(self) -> None:
        self.ms: list[float] = []

    def __call__(self, frame: DataFrame, _number: int) -> None:
        """One batch: it counts when its records are here."""
        rows = frame.select("headers").toArrow()
        now = time.monotonic_ns()
        for headers in rows["headers"].to_pylist():
            told = {header["key"]: header["value"] for header in headers}
            if told["measured"] == b"1":
                self.ms.append((now - int(told["sent"])) / 1e6)


def measure(spark: SparkSession, folder: Path, seconds: float) -> dict[str, Any]:
    """Latency of a consumer and of a streaming query, of the same records."""
    arrivals = Arrivals()
    with Cluster(ClusterOptions(root=str(folder / "queue"))) as cluster:
        cluster.wait_ready()
        with Admin(cluster.ingest_urls, cluster.consumer_urls) as admin:
            admin.create_topic(latency.TOPIC, partitions=PARTITIONS)
        query = (
            spark.readStream.format("lakequeue")
            .options(root=str(folder / "queue"), subscribe=latency.TOPIC, includeHeaders="true")
            .load()
            .writeStream.foreachBatch(arrivals)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(processingTime="0 seconds")
            .start()
        )
        try:
            ingest, consumer = cluster.ingest_urls[0], cluster.consumer_urls[0]
            found = latency.measure(ingest, consumer, folder, RATE, seconds, WARM_UP_S)
            want, deadline = int(RATE * seconds), time.monotonic() + 60
            while len(arrivals.ms) < want and time.monotonic() < deadline:
                query.awaitTermination(1)
            batches = [dict(p["durationMs"]) for p in query.recentProgress if p["numInputRows"]]
        finally:
            query.stop()
    consumer_ms, query_ms = found["end_to_end"], latency.percentiles(arrivals.ms)
    phases = {name for batch in batches for name in batch}
    return {
        "consumer": consumer_ms,
        "query": query_ms,
        "added_p50_ms": round(query_ms["p50_ms"] - consumer_ms["p50_ms"], 1),
        "added_p99_ms": round(query_ms["p99_ms"] - consumer_ms["p99_ms"], 1),
        "batch_ms": {name: median(b.get(name, 0) for b in batches) for name in sorted(phases)},
    }


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(prog="python -m bench.streaming", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--low-latency", action="store_true")
    args = parser.parse_args()
    os.environ["JAVA_HOME"] = str(find_java().home)
    with tempfile.TemporaryDirectory() as name:
        spark = start_spark(Path(name), LOW_LATENCY if args.low_latency else {})
        try:
            print(json.dumps(measure(spark, Path(name), args.seconds)))
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
