"""The driver of the jobs without Spark: `python -m tests.support.runs.light_driver`, as
`jobs.driver`.

Everything is the product's own (election, epochs, the cut, ordering, folding, sealing, upkeep),
but for what plans and runs the batches: a loop in a thread in place of a streaming query. It is
ready in seconds, so random faults can be tried on a whole queue where Spark would take minutes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import jobs.driver
from jobs.rows.key_projection import FACT_ROWS, fact_rows, project_rows
from jobs.rows.projected_rows import SENT
from jobs.source.batch_manifest import BatchManifest
from jobs.source.leader_state import LeaderState
from jobs.source.shard_scanner import ShardScanner
from jobs.source.source import SourceOptions
from jobs.source.source_channel import SourceStatus
from jobs.streaming.query import PrepareBatch
from lakequeue.clock import boot_seconds
from queue_tables.delta.store import open_store
from queue_tables.log.writer import SourceFiles
from queue_tables.root import QueueRoot


class PlainQuery:
    """What `jobs.query.ShardQuery` is to a leader."""

    def __init__(self, spark: SparkSession, options: SourceOptions, prepare: PrepareBatch) -> None:
        self._spark = spark
        self._options = options
        self._prepare = prepare
        self._store = open_store(options.root)
        self._scanner = ShardScanner(
            QueueRoot(self._store, ""), options.kind, options.max_batch_bytes
        )
        self._present: Callable[[], LeaderState] | None = None
        self._batch = threading.Lock()
        self._notifier = threading.Event()
        self._held = threading.Event()
        self._last_s = 0.0
        self.error: BaseException | None = None
        self.ended = threading.Event()
        self.rehearsed = threading.Event()

    def start(self, _checkpoint: Path, *, available_now: bool = False) -> None:
        """Idle until `lead`."""
        assert not available_now
        self.rehearsed.set()
        threading.Thread(target=self._run, name=f"plain-{self._options.kind}", daemon=True).start()

    def lead(self, present: Callable[[], LeaderState]) -> None:
        """Work for the term that `present` tells."""
        self._present = present
        self._notifier.set()

    def wake(self) -> None:
        """There may be something new."""
        self._notifier.set()

    def tell(self) -> None:
        """Nothing to do: what the term says is read before each batch."""

    def hold(self) -> None:
        """Wait for the batch that runs, and let none begin."""
        self._held.set()
        self._notifier.set()
        self._batch.acquire()

    def told(self) -> SourceStatus:
        """Nothing: what it asks of storage is counted by the process itself."""
        return SourceStatus()

    def triggers(self) -> dict[str, float]:
        """Nothing is measured."""
        return {}

    def _run(self) -> None:
        try:
            while not self._held.is_set():
                self._notifier.wait(self._options.poll_s)
                self._notifier.clear()
                early_s = self._last_s + self._options.min_interval_s - boot_seconds()
                if self._present is None or self._held.wait(max(0.0, early_s)):
                    continue
                with self._batch:
                    while not self._held.is_set() and self._step(self._present()):
                        self._last_s = boot_seconds()
        except BaseException as error:  # noqa: BLE001 -- the process ends by it, and says so
            self.error = error
        finally:
            self.ended.set()

    def _step(self, term: LeaderState) -> bool:
        """One batch; False if there is nothing."""
        self._scanner.begin(term)
        start = self._scanner.marks()
        end = self._scanner.next_end()
        if end is None:
            return False
        seen = self._scanner.between(start, end)
        files = BatchManifest.of(seen).files
        if self._options.kind == "inbox":
            rows = pa.Table.from_batches(project_rows(self._store, files), SENT)
        else:
            fences = [(s.shard, *fence) for s in seen for fence in s.fences]
            rows = pa.Table.from_batches(fact_rows(self._store, files, fences), FACT_ROWS)
        self._prepare(self._spark, [lambda: (rows, SourceFiles(self._store))])()
        self._scanner.done(end)
        return True


if __name__ == "__main__":
    vars(jobs.driver)["start_session"] = lambda *_: None
    vars(jobs.driver)["ShardQuery"] = PlainQuery
    jobs.driver.leave(jobs.driver.main())
