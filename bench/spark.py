"""Spark on a queue: reading speed, the latency of a stream, a large write.

    python -m bench.spark [--records 10000000] [--rounds 5] [--seconds 60] [--write-gib 2]

- Reading: `sum(length(value))` over so many records of 200 B, by `format("lakequeue")` and by
  `format("delta")` on the same files, in turns, both warm; the ratio of the medians of one run.
  The inbox is filled by shard writers and ordered by the order job's own parts.
- Latency: `bench.streaming`, as Spark comes and with the settings for low latency.
- A large write: one frame becomes one commit; time and peak memory of ordering it.

Writes bench/spark.json and bench/spark.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import lakequeue.spark
from bench import machine
from bench.inbox import inbox_rows
from lakequeue.clock import HybridClock
from lakequeue.processes.java import find_java
from lakequeue.settings import OrderSettings
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import ShardWriter
from queue_tables.topics import TopicStore
from tests.support.runs.order_process import Orderer
from tests.support.spark.spark_session import start_spark

HERE = Path(__file__).parent
TOPIC, PARTITIONS, VALUE_BYTES = "bench", 8, 200
GROUP = 50_000
BATCH_BYTES = OrderSettings().max_batch_bytes


def fill(root: QueueRoot, records: int) -> None:
    """Append records of random bytes to two shards, and order them as they come."""
    topic_id = TopicStore(root).create(TOPIC, partitions=PARTITIONS)[0].topic_id
    shards = [ShardWriter.create(root, "inbox", f"bench-{i}") for i in range(2)]
    clock, leader = HybridClock(), Orderer(root, 1, BATCH_BYTES, ids=10**9)
    for start in range(0, records, GROUP):
        count = min(GROUP, records - start)
        edges = np.arange(count + 1, dtype=np.int32) * VALUE_BYTES
        noise = pa.py_buffer(os.urandom(count * VALUE_BYTES))
        values = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(edges), noise])
        ids = [f"m-{start + i:010d}" for i in range(count)]
        rows = inbox_rows(topic_id, PARTITIONS, values, ids)
        shards[start // GROUP % 2].append(rows, clock.next())
        if start // GROUP % 12 == 11:  # a batch is full
            leader.drain()
    leader.drain()


def reading(spark: SparkSession, root: QueueRoot, records: int, rounds: int) -> dict[str, Any]:
    """Seconds of each way of reading, in turns; the first round warms up and does not count."""

    def queue(session: SparkSession, **more: str) -> DataFrame:
        reader = session.read.format("lakequeue")
        return reader.options(root=root.uri, subscribe=TOPIC, **more).load()

    # The sessions differ in nothing but that.
    registered = spark.newSession()
    lakequeue.spark.register(registered)
    ways: dict[str, Callable[[], DataFrame]] = {
        "delta": lambda: spark.read.format("delta").load(f"{root.uri}/log"),
        "lakequeue": lambda: queue(registered),
        "source": lambda: queue(spark),
        "source_value_only": lambda: queue(spark, columns="value"),
        "records": lambda: lakequeue.spark.records(spark, root.uri, TOPIC),
    }
    took: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, frame in ways.items():
            began = time.perf_counter()
            found = frame().selectExpr("sum(length(value))").collect()[0][0]
            if number:
                took[name].append(round(time.perf_counter() - began, 3))
            assert found == records * VALUE_BYTES, f"{name} read {found} bytes"
    of_delta = {
        name: round(median(took["delta"]) / median(seconds), 3) for name, seconds in took.items()
    }
    return {"records": records, "seconds": took, "speed_of_delta": of_delta}


def streaming(seconds: float, *options: str) -> dict[str, Any]:
    """What a process of its own found: a JVM's options are given once."""
    command = [sys.executable, "-m", "bench.streaming", "--seconds", str(seconds), *options]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def large_write(spark: SparkSession, folder: Path, gib: float) -> dict[str, Any]:
    """One frame of so many GiB of record bytes; what writing and ordering it take."""
    root = QueueRoot.open(str(folder / "large"))
    TopicStore(root).create(TOPIC, partitions=PARTITIONS)
    records = int(gib * 2**30) // (VALUE_BYTES + 10)
    frame = (
        spark.range(0, records, 1, 16)
        .selectExpr("cast(id as string) text")
        .selectExpr("lpad(text, 10, '0') key", f"rpad(sha2(text, 512), {VALUE_BYTES}, text) value")
    )
    began = time.perf_counter()
    frame.write.format("lakequeue").options(root=root.uri, topic=TOPIC, wait="committed").mode(
        "append"
    ).save()
    written_s = time.perf_counter() - began
    command = [sys.executable, "-m", "tests.support.runs.order_process", "--root", root.uri]
    began = time.perf_counter()
    done = subprocess.run(
        [*command, "--epoch", "1", "--max-bytes", str(BATCH_BYTES)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    ordered_s = time.perf_counter() - began
    batches = [json.loads(line) for line in done.stdout.splitlines()]
    assert [batch["ordered"] for batch in batches] == [records], "one batch, one version"
    return {
        "gib": gib,
        "records": records,
        "written_s": round(written_s, 1),
        "ordered_s": round(ordered_s, 1),
        "peak_mib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10,
    }


def render(results: dict[str, Any]) -> str:
    """The results as a Markdown table."""
    rows = []
    if "reading" in results:
        read, ratio = results["reading"], results["reading"]["speed_of_delta"]
        what = f"{read['records']:,} records of {VALUE_BYTES} B"
        for way, name, target in (
            ("lakequeue", f'`format("lakequeue")` reads {what}', "≥ 80 %"),
            ("source", "the same in a session that is not registered", "–"),
            ("source_value_only", 'in such a session, with `columns="value"`', "–"),
            ("records", "the same by `lakequeue.spark.records`", "–"),
        ):
            speed = f'{ratio[way]:.0%} of the speed of `format("delta")`'
            rows.append((name, speed, target))
    for way, name, target in (
        ("streaming", "a streaming read adds to the end-to-end latency of a consumer", "≤ 300 ms"),
        ("streaming_quick", "the same with the settings for low latency", "≤ 300 ms"),
    ):
        if found := results.get(way):
            added = f"p50 {found['added_p50_ms']:.0f} ms, p99 {found['added_p99_ms']:.0f} ms"
            rows.append((name, added, target))
    if "large_write" in results:
        large = results["large_write"]
        rows.append(
            (
                f"one write of {large['gib']:g} GiB ({large['records']:,} records)",
                f"written in {large['written_s']:.0f} s, ordered in {large['ordered_s']:.0f} s,"
                f" by a process of {large['peak_mib']:,} MiB at most",
                "–",
            )
        )
    where: machine.Machine = results["machine"]
    lines = ["| measure | found | target |", "|---|---|---|"]
    lines += [f"| {name} | {found} | {target} |" for name, found, target in rows]
    lines += [
        "",
        f"{machine.sentence(where)} Measured {where['measured_at'][:10]} by `make bench-spark`.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure what was asked for; write the results."""
    parser = argparse.ArgumentParser(prog="make bench-spark", description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000, help="to read; 0: none")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0, help="of streaming; 0: none")
    parser.add_argument("--write-gib", type=float, default=2.0, help="0: none")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for the results")
    args = parser.parse_args()
    os.environ["JAVA_HOME"] = str(find_java().home)
    results: dict[str, Any] = {"machine": machine.describe()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.records:
            fill(QueueRoot.open(str(folder / "read")), args.records)
        spark = start_spark(folder)
        try:
            if args.records:
                root = QueueRoot.open(str(folder / "read"))
                results["reading"] = reading(spark, root, args.records, args.rounds)
            if args.write_gib:
                results["large_write"] = large_write(spark, folder, args.write_gib)
        finally:
            spark.stop()
    if args.seconds:
        results["streaming"] = streaming(args.seconds)
        results["streaming_quick"] = streaming(args.seconds, "--low-latency")
    (args.out / "spark.json").write_text(json.dumps(results, indent=2) + "\n")
    (args.out / "spark.md").write_text(render(results))
    print(json.dumps(results, indent=2))
    print(render(results))


if __name__ == "__main__":
    main()
