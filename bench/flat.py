"""Flat over time: does a batch take longer after 20,000 of them than in the beginning?

    python -m bench.flat [--batches 20000] [--records 250] [--docs FILE]

The order job's own looking, cutting, numbering, writing and committing, called in a row, without
Spark and HTTP; beside it the checkpoints of its leader, and what the jobs `compaction` and
`retention` do, as often as beside three batches a second. Time is told, not waited for: the clock
of stamps, records and jobs goes on by a third of a second a batch. Ages of what was really written
(how long commits stay for those who follow a table) are shortened by the same factor.

Every 500 batches the machine's speed is measured as well: what a batch takes is compared in loops,
because a machine that others share changes its speed within an hour.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any, TypedDict

import pyarrow as pa

from bench import machine
from bench.figures import rows_of
from bench.inbox import inbox_rows
from jobs.maintenance.log_compaction import Bounds, compact_log
from jobs.maintenance.log_retention import retain_log
from jobs.maintenance.shard_retention import ROW_MARGIN_US, retain_shards
from jobs.maintenance.table_upkeep import upkeep_tables
from jobs.streaming.checkpoints import Checkpoints
from lakequeue.clock import HybridClock, wall_micros
from lakequeue.processes.logs import log_to_stderr
from lakequeue.settings import OrderSettings
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import LOG
from queue_tables.shards.shards import ShardWriter, shard_path
from queue_tables.topics import TopicStore
from queue_tables.upkeep.clean_up import KEEP_COMMITS_S
from tests.support.runs.order_process import Orderer

BATCH_US = 333_333
"""Time told per batch: three a second, as the job makes under steady load."""
SETTINGS = OrderSettings()
VALUE_BYTES = 200
PARTITIONS = 8
RETENTION_MS = 30 * 60_000
WINDOW = 500
"""Batches that are looked at together; the first ones and the last ones are compared."""
_MAX_IDS = 10**8


class Window(TypedDict):
    """Batches in a row."""

    first_batch: int
    batch_p50_ms: float
    batch_p95_ms: float
    cpu_p50_ms: float
    loop_ms: float
    """The calibrating loop, just before them."""


class Course:
    """A queue, its two ingest nodes and its order leader, and those who look after its tables."""

    def __init__(
        self,
        root: QueueRoot,
        batches: int,
        records: int,
        batch_us: int = BATCH_US,
        checkpoint_every: int = SETTINGS.checkpoint_every,
        window: int = WINDOW,
    ) -> None:
        self.root = root
        self.window = window
        self.took_ms: list[float] = []
        """Of each batch, from the look at the shards to the durable commit."""
        self.cpu_ms: list[float] = []
        """The same in time of the processor: what others use does not count."""
        self.loop_ms: list[float] = []
        """The calibrating loop before each window of batches."""
        self.maintenance_s = 0.0
        self._records = records
        self._batch_us = batch_us
        self.maintain_every = max(1, round(SETTINGS.maintenance_s * 1e6 / batch_us))
        # It ends at the present, so nothing of it lies in the future of those who look.
        self._now = self._began = wall_micros() - batches * batch_us
        self._started = time.monotonic()
        self._topic = TopicStore(root).create(
            "flat", partitions=PARTITIONS, retention_ms=RETENTION_MS
        )[0]
        self._clock = HybridClock(lambda: self._now)
        self._shards = [ShardWriter.create(root, "inbox", f"node-{n}") for n in range(2)]
        self._leader = Orderer(root, 1, ids=_MAX_IDS, wall=lambda: self._now)
        self._checkpoints = Checkpoints(root, LOG.name, checkpoint_every)

    def run(self, batches: int) -> None:
        """So many batches more."""
        for _ in range(batches):
            if len(self.took_ms) % self.window == 0:
                self.loop_ms.append(machine.calibrated()["loop_ms"])
            self._batch()
            self._checkpoints.write_if_due(self._leader.state.log.version)
            if len(self.took_ms) % self.maintain_every == 0:
                began = time.perf_counter()
                self.maintain()
                self.maintenance_s += time.perf_counter() - began

    def _batch(self) -> None:
        """Both nodes commit half of it; the leader orders it."""
        self._now += self._batch_us
        each = self._records // len(self._shards)
        for number, shard in enumerate(self._shards):
            sent = len(self.took_ms) * each
            values = pa.array([os.urandom(VALUE_BYTES) for _ in range(each)], pa.binary())
            ids = [f"{number}-{sent + n}" for n in range(each)]
            rows = inbox_rows(self._topic.topic_id, PARTITIONS, values, ids)
            shard.append(rows, self._clock.next())
        began, cpu = time.perf_counter(), time.process_time()
        done = self._leader.step()
        self.took_ms.append((time.perf_counter() - began) * 1e3)
        self.cpu_ms.append((time.process_time() - cpu) * 1e3)
        assert done is not None
        assert done["ordered"] == each * len(self._shards)

    def maintain(self) -> None:
        """One run of the maintenance jobs, but for vacuum: it keeps files for hours."""
        compact_log(self.root, self._now, Bounds(), dry_run=False)
        retain_log(self.root, self._now, dry_run=False)
        retain_shards(self.root, "inbox", self._shortened(ROW_MARGIN_US["inbox"]), dry_run=False)
        upkeep_tables(self.root, self._shortened(int(KEEP_COMMITS_S * 1e6)), dry_run=False)

    def _shortened(self, age_us: int) -> int:
        """A present at which what was written `age_us` of told time ago is so old."""
        told_s = (self._now - self._began) / 1e6
        really = (time.monotonic() - self._started) / told_s
        return wall_micros() + round(age_us * (1 - really))

    def sizes(self) -> dict[str, dict[str, int]]:
        """By table: files in it, and objects in its `_delta_log`."""
        tables = [LOG.name, *(shard_path("inbox", shard.name) for shard in self._shards)]
        return {
            table: {
                "live_files": len(load_snapshot(self.root.store, table).files),
                "log_objects": len(self.root.store.names(f"{table}/_delta_log")),
            }
            for table in tables
        }


def measure(course: Course, batches: int) -> dict[str, Any]:
    """Drive it; how long batches took at the beginning and at the end."""
    most: dict[str, int] = {}
    left = batches
    while left:
        # Look just before maintenance: that is the most there ever is.
        course.run(min(left, course.maintain_every - 1))
        for sizes in course.sizes().values():
            most |= {name: max(size, most.get(name, 0)) for name, size in sizes.items()}
        left = batches - len(course.took_ms)
        course.run(min(left, 1))
        left = batches - len(course.took_ms)
    windows = _windows(course)
    return {
        "batches": batches,
        "windows": windows,
        "ratio": _ratio([window["batch_p50_ms"] for window in windows]),
        "ratio_in_loops": _ratio([_in_loops(window) for window in windows]),
        "cpu_ratio": _ratio([window["cpu_p50_ms"] for window in windows]),
        "cpu_ratio_in_loops": _ratio(
            [window["cpu_p50_ms"] / window["loop_ms"] for window in windows]
        ),
        "most": most,
        "at_the_end": course.sizes(),
        "maintenance_s": round(course.maintenance_s, 1),
    }


def _windows(course: Course) -> list[Window]:
    """The whole ones, in their order."""
    found: list[Window] = []
    for first in range(0, len(course.took_ms) - course.window + 1, course.window):
        part = slice(first, first + course.window)
        took, cpu = course.took_ms[part], course.cpu_ms[part]
        found.append(
            {
                "first_batch": first,
                "batch_p50_ms": round(median(took), 2),
                "batch_p95_ms": round(quantiles(took, n=20)[-1], 2),
                "cpu_p50_ms": round(median(cpu), 2),
                "loop_ms": course.loop_ms[first // course.window],
            }
        )
    return found


def _in_loops(window: Window) -> float:
    return window["batch_p50_ms"] / window["loop_ms"]


def _ratio(found: Sequence[float]) -> float:
    """Of the last tenth of the windows to the first: a single one may fall into a slow minute."""
    tenth = max(1, len(found) // 10)
    return round(median(found[-tenth:]) / median(found[:tenth]), 2)


def page(result: Mapping[str, Any], where: machine.Machine) -> str:
    """Markdown."""
    windows: list[Window] = result["windows"]
    told_h = result["batches"] * BATCH_US / 3.6e9
    lines = [
        "# Flat over time: the last batches beside the first",
        "",
        f"Written by `make flat` on {where['measured_at'][:10]}. {machine.sentence(where)}",
        "",
        f"{result['batches']:,} batches of the order job, one after the other, without Spark and "
        f"HTTP: {told_h:.1f} hours of three batches a second. Beside them the checkpoints of "
        "`log`, compaction and retention run as often as they would. The calibrating loop runs "
        "before each window of batches: machines change their speed within an hour.",
        "",
        f"The last tenth of the windows takes {result['ratio']:.2f} × of the first, in loops "
        f"**{result['ratio_in_loops']:.2f} ×**; of its CPU {result['cpu_ratio']:.2f} ×, in loops "
        f"**{result['cpu_ratio_in_loops']:.2f} ×** (medians).",
        "",
    ]
    head = ["batches from", "p50 ms", "p95 ms", "CPU p50 ms", "loop ms", "p50 in loops"]
    rows = [
        [
            f"{window['first_batch']:,}",
            f"{window['batch_p50_ms']:.1f}",
            f"{window['batch_p95_ms']:.1f}",
            f"{window['cpu_p50_ms']:.1f}",
            f"{window['loop_ms']:.0f}",
            f"{_in_loops(window):.3f}",
        ]
        for window in windows
    ]
    lines += rows_of(head, rows)
    most = result["most"]
    lines += [
        f"No table had more than {most['live_files']:,} files, nor more than "
        f"{most['log_objects']:,} objects in its `_delta_log`; at the end `log` has "
        f"{result['at_the_end'][LOG.name]['live_files']:,} and "
        f"{result['at_the_end'][LOG.name]['log_objects']:,}.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=20_000)
    parser.add_argument("--records", type=int, default=250, help="a batch")
    parser.add_argument("--docs", type=Path, help="the page to write")
    args = parser.parse_args()
    where = machine.describe()
    log_to_stderr("info")
    with tempfile.TemporaryDirectory() as folder:
        root = QueueRoot.open(f"{folder}/queue")
        result = measure(Course(root, args.batches, args.records), args.batches)
    print(json.dumps(result, indent=2))
    if args.docs:
        args.docs.write_text(page(result, where))


if __name__ == "__main__":
    main()
