"""A streaming query over shards that works only while its job leads.

Its checkpoint is a new folder in each process, on local disk: what was done stands in the tables,
so an old, lost or foreign checkpoint cannot matter. It is stopped between batches only: a batch
that runs is finished first, and none begins after `hold`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from jobs.source import ShardSource, SourceOptions
from jobs.term_file import Term, TermFile

ProcessBatch = Callable[[SparkSession, pa.Table], None]


class ShardQuery:
    """One query, and the file by which its source knows that it may work."""

    def __init__(self, spark: SparkSession, options: SourceOptions, process: ProcessBatch) -> None:
        self._spark = spark
        self._options = options
        self._process = process
        self._file = TermFile(options.folder, options.kind)
        self._query: StreamingQuery | None = None
        self._batch = threading.Lock()
        self.error: BaseException | None = None
        """What `process` raised, if it did: the query has ended by it."""
        self.ended = threading.Event()

    def start(self, checkpoint: Path, *, available_now: bool = False) -> None:
        """Start the query; it idles until `lead`."""
        self._file.create()
        self._spark.dataSource.register(ShardSource)
        frame = (
            self._spark.readStream.format(ShardSource.name())
            .options(**self._options.to_options())
            .load()
        )
        writer = (
            frame.writeStream.foreachBatch(self._on_batch)
            .queryName(f"lakequeue-{self._options.kind}")
            .option("checkpointLocation", str(checkpoint))
        )
        self._start = lambda: (
            writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime="0 seconds")
        ).start()
        if not available_now:
            self._run()

    def lead(self, term: Term) -> None:
        """Let the source work for `term`."""
        self._file.write(term)
        self._file.wake()
        if self._query is None:
            self._run()

    def _run(self) -> None:
        self._query = self._start()
        threading.Thread(
            target=self._await_end, name=f"await-{self._options.kind}", daemon=True
        ).start()

    def wake(self) -> None:
        """There may be something new."""
        self._file.wake()

    def hold(self) -> None:
        """Wait for the batch that runs, and let none begin: the process is about to end."""
        self._file.write(None)
        self._batch.acquire()

    def _await_end(self) -> None:
        try:
            assert self._query is not None
            self._query.awaitTermination()
        except Exception as error:  # noqa: BLE001 -- kept, and reported by whoever waits
            if self.error is None:
                self.error = error
        self.ended.set()

    def _on_batch(self, frame: DataFrame, _batch_id: int) -> None:
        rows = frame.toArrow()
        with self._batch:
            try:
                self._process(frame.sparkSession, rows)
            except BaseException as error:
                # Spark wraps it in text; the process has to know which error it was.
                self.error = error
                raise
