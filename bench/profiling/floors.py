"""What the libraries take without anything of ours: what no code around them can go below.

*Trigger*: a query of Spark Structured Streaming that does nothing with its batches, of 20 rows each
that Spark makes itself. *Bulk*: the steps that a record of 1 kB has to take from a JSON request to
a JSON answer, with the library of each step called on bytes at hand: no HTTP, no check, no
deduplication, no offsets, no Delta commit, no second process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.http.bulk import A_REQUEST, PARTITIONS, json_request
from lakequeue.processes.quick_start import keep_freed_memory

REQUESTS = 4
"""Of a group; each is one of `bench.http.bulk`."""
_TRIGGER_S = 15

_QUERY = f"""
import json, sys, tempfile, time
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20)
rows = rows.option("numPartitions", 1).load()
with tempfile.TemporaryDirectory() as folder:
    query = rows.writeStream.option("checkpointLocation", folder).format("noop").start()
    time.sleep({_TRIGGER_S})
    told = [p.durationMs for p in query.recentProgress if p.numInputRows]
    query.stop()
print(json.dumps(told[len(told) // 2:]))
"""


def trigger_ms() -> dict[str, float]:
    """Mean milliseconds of each phase of a trigger that does nothing, as Spark reports them."""
    found = subprocess.run(
        [sys.executable, "-c", _QUERY], check=True, capture_output=True, text=True, timeout=180
    ).stdout
    told: list[dict[str, float]] = json.loads(found.splitlines()[-1])
    return {phase: round(fmean(one[phase] for one in told), 1) for phase in sorted(told[0])}


class Steps:
    """CPU of this thread, the kernel's for it among it, by step."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)

    @contextmanager
    def of(self, step: str) -> Iterator[None]:
        """Add what the block takes."""
        before = time.thread_time()  # `getrusage` is as coarse as the ticks of the kernel
        yield
        self.spent[step] += time.thread_time() - before


def bulk_us(rounds: int = 60, warm: int = 10) -> dict[str, float]:
    """Microseconds of CPU for a record, by step."""
    steps = Steps()
    with tempfile.TemporaryDirectory(prefix="floors-") as folder:
        for number in range(warm + rounds):
            if number == warm:
                steps = Steps()
            _group(Path(folder), number, steps)
    count = A_REQUEST * REQUESTS * rounds
    return {step: round(s / count * 1e6, 2) for step, s in steps.spent.items()}


def _group(folder: Path, number: int, steps: Steps) -> None:
    bodies = [json_request() for _ in range(REQUESTS)]
    with steps.of("JSON parsed (orjson), values as Arrow"):
        records = [one for body in bodies for one in orjson.loads(body)["records"]]
        rows = pa.table(
            {
                "partition": pa.array([one["partition"] for one in records], pa.int32()),
                "value": pa.array([one["value"].encode() for one in records], pa.binary()),
            }
        )
    with steps.of("Parquet for the inbox, file, fsync"):
        inbox = _stored(folder / f"inbox-{number}", rows, 1)
    with steps.of("inbox read"):
        rows = pq.read_table(inbox, use_threads=False)
    with steps.of("rows taken in the order of the log"):
        order = np.argsort(rows.column("partition").to_numpy(), kind="stable")
        rows = rows.combine_chunks().take(pa.array(order))
    with steps.of("Parquet for the log, file, fsync"):
        log = _stored(folder / f"log-{number}", rows, PARTITIONS)
    with steps.of("log read"):
        rows = pq.read_table(log, use_threads=False)
    with steps.of("JSON made (orjson)"):
        texts = pc.cast(rows.column("value"), pa.string()).to_pylist()
        partitions = rows.column("partition").to_pylist()
        orjson.dumps([{"partition": p, "value": v} for p, v in zip(partitions, texts, strict=True)])
    for file in (inbox, log):
        file.unlink()


def _stored(path: Path, rows: pa.Table, row_groups: int) -> Path:
    sink = pa.BufferOutputStream()
    pq.write_table(
        rows,
        sink,
        compression="snappy",
        use_dictionary=False,
        write_page_checksum=True,
        row_group_size=-(-rows.num_rows // row_groups),
    )
    with path.open("wb", buffering=0) as file:
        file.write(sink.getvalue())
        os.fsync(file.fileno())
    return path


def measured() -> dict[str, Any]:
    """Both; the steps in a process that keeps freed memory, as the services do."""
    code = "import json; from bench.profiling.floors import bulk_us; print(json.dumps(bulk_us()))"
    keep_freed_memory()  # of processes that are started from here
    found = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=180
    ).stdout
    return {"trigger_ms": trigger_ms(), "bulk_us": json.loads(found.splitlines()[-1])}


if __name__ == "__main__":
    print(json.dumps(measured(), indent=1))
