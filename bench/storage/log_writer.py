"""Throughput of the log writer, by codec: inbox files in, ordered log files out, one core.

80,000 records of 1 kB (half of a value is random, half repeats, so it compresses about 3:1), in
10 inbox files of 2 shards, 8 partitions. The figure is record bytes per second of wall time, with
reading, copying, compressing, statistics and fsync. `--random` makes values that do not compress.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc

from bench import machine
from lakequeue.records import Stamp
from queue_tables.log import writer as log_writer
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import INBOX
from queue_tables.shards.shards import ShardWriter

RECORDS, FILES, PARTITIONS, VALUE_BYTES = 80_000, 10, 8, 1_000


def fill(root: QueueRoot, rng: random.Random, random_values: bool) -> pa.Table:
    """Append the records to two shards; the plan that orders them."""
    per_file = RECORDS // FILES
    shards = [ShardWriter.create(root, "inbox", f"node{i}") for i in range(2)]
    noise = VALUE_BYTES if random_values else VALUE_BYTES // 2
    filler = (b'{"station":"north-7","unit":"celsius","reading":' * 30)[: VALUE_BYTES - noise]
    parts = []
    for n in range(FILES):
        writer = shards[n % 2]
        columns = {
            "topic_id": ["t1"] * per_file,
            "partition": pa.array([rng.randrange(PARTITIONS) for _ in range(per_file)], pa.int32()),
            "key": [b"key-%06d" % rng.randrange(5_000) for _ in range(per_file)],
            "value": [rng.randbytes(noise) + filler for _ in range(per_file)],
            "key_format": [1] * per_file,
            "value_format": [0] * per_file,
            "timestamp": [1_700_000_000_000_000 + n * per_file + i for i in range(per_file)],
            "message_id": [f"p{n % 2}:{n * per_file + i}" for i in range(per_file)],
            "producer_id": [f"p{n % 2}"] * per_file,
            "sequence": [n * per_file + i for i in range(per_file)],
            "bytes": [VALUE_BYTES + 10] * per_file,
        }
        wanted = [f for f in INBOX.arrow if f.name not in {"hour", "stamp", "row"}]
        table = pa.table(
            [
                pa.array(columns[f.name]).cast(f.type)
                if f.name in columns
                else pa.nulls(per_file, f.type)
                for f in wanted
            ],
            schema=pa.schema(wanted),
        )
        version = writer.append(table, Stamp(1_700_000_000_000_000 + n))
        file = newest_file(root, writer.path, version)
        parts.append(
            pa.table(
                {
                    "file": [f"{writer.path}/{file}"] * per_file,
                    "row": pa.array(range(per_file), pa.int32()),
                    "partition": table.column("partition"),
                    "shard": [writer.name] * per_file,
                }
            )
        )
    plan = pa.concat_tables(parts)
    plan = plan.take(pc.sort_indices(plan, [("partition", "ascending")]))
    count = plan.num_rows
    return (
        plan.append_column("topic", pa.repeat("orders", count))
        .append_column("topic_id", pa.repeat("t1", count))
        .append_column("offset", pa.array(range(count), pa.int64()))
        .append_column(
            "ordered_at", pa.array([1_700_000_000_000_000] * count, pa.timestamp("us", tz="UTC"))
        )
        .append_column("hour", pa.repeat("2023-11-14T22", count))
        .append_column("out_file", pa.repeat("0", count))
    )


def newest_file(root: QueueRoot, table_path: str, version: int) -> str:
    """The data file that a version added."""
    from queue_tables.delta.actions import commit_path
    from queue_tables.delta.commit_json import parse

    return parse(version, root.store.get(commit_path(table_path, version))).adds[0].path


@contextmanager
def dictionaries_everywhere() -> Iterator[None]:
    """The writer with dictionary encoding for every column, for comparison."""
    with mock.patch.object(log_writer, "_PLAIN", frozenset()):
        yield


def measure(root: QueueRoot, plan: pa.Table, codec: str) -> str:
    """Cells: MB/s of wall time, MB/s of processor time, bytes out per byte in; best of three."""
    wall, cpu, size = float("inf"), float("inf"), 0
    for _ in range(3):
        start, start_cpu = time.perf_counter(), time.process_time()
        adds = log_writer.write_log_files(root.uri, plan, codec)
        wall = min(wall, time.perf_counter() - start)
        cpu = min(cpu, time.process_time() - start_cpu)
        size = sum(add.size for add in adds)
    megabytes = RECORDS * (VALUE_BYTES + 10) / 1e6
    return f"{megabytes / wall:.0f} | {megabytes / cpu:.0f} | {size / megabytes / 1e6:.2f}"


def main() -> None:
    """Print a Markdown table of codec, throughput, size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--random", action="store_true", help="values that do not compress")
    arguments = parser.parse_args()
    machine.announce()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    with tempfile.TemporaryDirectory() as folder:
        root = QueueRoot.open(str(Path(folder) / "root"))
        plan = fill(root, random.Random(1), arguments.random)
        print(
            "| codec | dictionaries | MB/s, wall | MB/s, processor | size |\n|---|---|---|---|---|"
        )
        for codec in ("zstd", "snappy", "lz4", "none"):
            print(f"| {codec} | repeating columns | {measure(root, plan, codec)} |")
            with dictionaries_everywhere():
                print(f"| {codec} | all columns | {measure(root, plan, codec)} |")


if __name__ == "__main__":
    main()
