"""What one commit costs as the log of a table grows: our own commit path against delta-rs.

One table, no checkpoint, one record of 1 kB a commit. Our path: data file and commit file, each
fsynced, the commit linked into place, directories fsynced. delta-rs: the same data file and
fsyncs, and `update_incremental` + `create_write_transaction` on one long-lived handle, with its
post-commit hooks off. The table is grown by our own commits, because delta-rs would need ten
minutes for it; at each size both are measured, on the same table.

    python -m bench.storage.commit_path [--commits 2000] [--json FILE]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.transaction import AddAction

from bench import machine
from lakequeue.records import Stamp, Version
from queue_tables.delta.actions import commit_path
from queue_tables.delta.store import LocalStore
from queue_tables.delta.tail import Tail
from queue_tables.files.parquet import write_data_file
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import INBOX
from queue_tables.shards.shards import ShardWriter
from tests.support.data.rows import inbox_rows
from tests.support.faults.foreign import take_guard_off

FIRST_STAMP = 1_700_000_000_000_000
HOUR = {"hour": "2023-11-14T22"}
OWN_SAMPLE, DELTA_RS_SAMPLE = 100, 10
HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


class DeltaRs:
    """A commit by delta-rs, made durable the way it has to be: after it is visible."""

    def __init__(self, store: LocalStore, path: str, rows: pa.Table) -> None:
        self._store = store
        self._path = path
        self._rows = rows
        self._table = DeltaTable(f"{store.uri}/{path}")
        self._schema = Schema.from_arrow(INBOX.arrow)
        self._count = 0

    def commit(self) -> None:
        """One group, as a user of delta-rs would commit it."""
        self._count += 1
        add = write_data_file(self._store, self._path, self._rows, HOUR, INBOX)
        self._table.update_incremental()
        self._table.create_write_transaction(
            [
                AddAction(
                    add.path, add.size, dict(HOUR), add.modification_time, True, add.stats or ""
                )
            ],
            mode="append",
            schema=self._schema,
            partition_by=["hour"],
            commit_properties=CommitProperties(
                app_transactions=[Transaction("bench", self._count)]
            ),
            post_commithook_properties=HOOKS,
        )
        version = self._table.version() + 1
        with (Path(self._store.uri) / commit_path(self._path, version)).open("rb") as file:
            os.fsync(file.fileno())
        self._store.make_durable(f"{self._path}/_delta_log")


def timed_ms(call: Callable[[], object], count: int) -> list[float]:
    """Milliseconds of each of `count` calls."""
    taken = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        taken.append((time.perf_counter() - start) * 1_000)
    return taken


def summary(taken: list[float]) -> dict[str, float]:
    """Median and 99th percentile."""
    ordered = sorted(taken)
    return {
        "p50_ms": round(statistics.median(ordered), 2),
        "p99_ms": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))], 2),
    }


def measure(folder: Path, commits: int) -> dict[str, object]:
    """Grow one shard to `commits`, measuring both paths on the way, then read its tail."""
    described = machine.describe()
    root = QueueRoot.open(str(folder / "queue"))
    rows = inbox_rows([b"x" * 1_000])
    placed = rows.append_column("stamp", pa.array([1], pa.int64())).append_column(
        "row", pa.array([0], pa.int32())
    )
    writer = ShardWriter.create(root, "inbox", "bench")
    stamps = itertools.count(FIRST_STAMP)

    def own() -> None:
        writer.append(rows, Stamp(next(stamps)))

    sizes = sorted({max(OWN_SAMPLE, commits * q // 20) for q in (1, 5, 10, 15, 20)})
    table = []
    for size in sizes:
        timed_ms(own, size - OWN_SAMPLE - writer.version)
        own_taken = timed_ms(own, OWN_SAMPLE)
        # On a copy of the log, so that this does not grow the table that is measured.
        copy = LocalStore(folder / f"copy-{size}")
        shutil.copytree(folder / "queue" / writer.path, folder / f"copy-{size}" / "t")
        take_guard_off(copy, "t")  # which keeps every other engine from committing
        delta_rs = DeltaRs(copy, "t", placed)
        delta_rs.commit()  # the first materialises the state of the handle
        theirs = timed_ms(delta_rs.commit, DELTA_RS_SAMPLE)
        table.append({"commits": size, "own": summary(own_taken), "delta_rs": summary(theirs)})

    behind = Tail(root.store, writer.path, Version(writer.version - OWN_SAMPLE))
    read = timed_ms(behind.poll, 1)[0] / OWN_SAMPLE
    empty = statistics.median(timed_ms(behind.poll, 2_000))
    return {
        "machine": described,
        "table": table,
        "tail_read_us": round(read * 1_000, 1),
        "tail_empty_poll_us": round(empty * 1_000, 1),
    }


def markdown(result: dict[str, Any]) -> str:
    """The figures as a table."""
    lines = [
        "| commits in the log | own p50 | own p99 | delta-rs p50 | delta-rs p99 |",
        "|---|---|---|---|---|",
    ]
    for row in result["table"]:
        cells = [row[who][key] for who in ("own", "delta_rs") for key in ("p50_ms", "p99_ms")]
        lines.append(f"| {row['commits']:,} | " + " | ".join(f"{c} ms" for c in cells) + " |")
    lines.append(
        f"\nTail: {result['tail_read_us']} µs a commit read,"
        f" {result['tail_empty_poll_us']} µs an empty poll."
    )
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write the figures if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=2_000)
    parser.add_argument("--dir", type=Path, help="where the tables are; default a temporary one")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        result = measure(Path(folder), args.commits)
    print(markdown(result))
    if args.json:
        args.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
