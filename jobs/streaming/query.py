"""A streaming query over shards that works only while its job leads.

Its checkpoint is a new folder in each process, on local disk: what was done stands in the tables,
so an old, lost or foreign checkpoint cannot matter. It is stopped between batches only: a batch
that runs is finished first, and none begins after `hold`.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import structlog
from pyspark.errors import StreamingQueryException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from jobs.rows.key_projection import FACT_ROWS, fact_rows, project_rows
from jobs.rows.projected_rows import SENT
from jobs.source.batch_manifest import BatchManifest
from jobs.source.leader_state import LeaderState
from jobs.source.source import SOURCES, SourceOptions
from jobs.source.source_channel import DriverEnd, SourceStatus
from queue_tables.delta.store import open_store
from queue_tables.log.writer import SourceFiles

log = structlog.get_logger("query")

_START_ATTEMPTS = 10
_SOURCES = "org.apache.spark.sql.execution.streaming.sources"
ReadRows = tuple[pa.Table, SourceFiles]
Part = Callable[[], ReadRows]
"""Reads a part of a batch: its rows, and what else was read of its files."""
Ready = Callable[[], bool | None]
"""Does what is left of a batch. True: the term says something new (of shards that wait), which the
source has to know before it cuts the next batch."""
PrepareBatch = Callable[[SparkSession, Sequence[Part]], Ready]
"""Called with the parts of a batch, nearly always one, in cut order; does of it what may come
before Spark runs it, while it plans it."""
MakeFrame = Callable[[], DataFrame]
OnBatch = Callable[[MakeFrame, int], None]
"""(makes the frame of the batch, its number)"""


class ShardQuery:
    """One query, and the channel to its source."""

    def __init__(self, spark: SparkSession, options: SourceOptions, prepare: PrepareBatch) -> None:
        self._spark = spark
        self._options = options
        self._prepare = prepare
        self._store = open_store(options.root)
        self._source = DriverEnd(options.folder, options.kind, self._begin_ahead)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix=f"{options.kind}-ahead")
        self._ahead: tuple[int, Future[Ready | None]] | None = None
        """The newest batch that the source has told of, by number."""
        self._query: StreamingQuery | None = None
        self._checkpoint = options.folder
        self._available_now = False
        self._present: Callable[[], LeaderState] | None = None
        self._batch = threading.Lock()
        self._suspects: set[str] = set()
        self.error: BaseException | None = None
        """What `process` raised, if it did: the query has ended by it."""
        self.ended = threading.Event()
        self.rehearsed = threading.Event()
        """The batch without rows is through: everything that a batch needs has started."""

    def start(self, checkpoint: Path, *, available_now: bool = False) -> None:
        """Start the query; it idles until `lead`. With `available_now` it starts at `lead`."""
        self._source.open()
        self._checkpoint, self._available_now = checkpoint, available_now
        if available_now:
            self.rehearsed.set()  # there is none
        else:
            self._run()

    def lead(self, present: Callable[[], LeaderState]) -> None:
        """Let the source work for the term that `present` tells, as it is then and later."""
        self._present = present
        self._source.tell(present())
        if self._available_now:
            self._run()

    def tell(self) -> None:
        """Let the source know what the term says now."""
        if self._present is not None:
            self._source.tell(self._present())

    def wake(self) -> None:
        """There may be something new."""
        self._source.wake()

    def hold(self) -> None:
        """Wait for the batch that runs, and let none begin: the process is about to end."""
        self._source.tell(None)
        self._batch.acquire()
        self._source.close()
        self._worker.shutdown(cancel_futures=True)

    def _run(self) -> None:
        name = f"await-{self._options.kind}"
        threading.Thread(target=self._keep_running, name=name, daemon=True).start()

    def _keep_running(self) -> None:
        try:
            for attempt in range(_START_ATTEMPTS):
                query = self._query = self._start_query(attempt)
                try:
                    query.awaitTermination()
                except StreamingQueryException as error:
                    # Spark failed, not `process`, so nothing was done and the query is just
                    # started again. Seen: its Python processes get 10 s to start, which a busy
                    # machine may not manage.
                    if self.error or attempt + 1 == _START_ATTEMPTS:
                        raise
                    if self._present is not None:
                        # The new source goes on from the watermarks of now.
                        self._source.tell(self._present())
                    first_line = str(error).partition("\n")[0][:300]
                    log.warning(
                        "query.restarted",
                        kind=self._options.kind,
                        attempt=attempt,
                        error=first_line,
                    )
                    continue
                return
        except Exception as error:  # noqa: BLE001 -- kept, and reported by whoever waits
            if self.error is None:
                self.error = error
        finally:
            self.ended.set()

    def triggers(self) -> dict[str, float]:
        """How many triggers with data Spark still knows (100 at most), and the mean milliseconds of
        each of their phases, as it reports them."""
        known = getattr(self._query, "_jsq", None)
        if known is None:  # not started, or Spark Connect
            return {}
        # As text: PySpark's own objects ask the JVM for each field.
        reports = [json.loads(one.json())["durationMs"] for one in known.recentProgress()]
        told = [phases for phases in reports if "addBatch" in phases]
        total = sum((Counter(phases) for phases in told), Counter[str]())
        means = {phase: round(ms / len(told), 2) for phase, ms in total.items()}
        return {"triggers": len(told), **means}

    def told(self) -> SourceStatus:
        """What the source told last; its requests to storage are those of all starts."""
        return self._source.status()

    def _start_query(self, attempt: int) -> StreamingQuery:
        source = SOURCES[self._options.kind]
        self._source.begin(attempt)
        self._spark.dataSource.register(source)  # with an environment of its own, see ShardSource
        frame = (
            self._spark.readStream.format(source.name())
            .options(**replace(self._options, attempt=attempt).to_options())
            .load()
        )
        writer = (
            _for_each_batch(self._spark, frame.writeStream, self._on_batch)
            .queryName(f"lakequeue-{self._options.kind}-{attempt}")
            .option("checkpointLocation", f"{self._checkpoint}-{attempt}")
        )
        if self._available_now:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime="0 seconds").start()

    def _parts(self, make_frame: MakeFrame, noted: list[BatchManifest] | None) -> list[Part]:
        """The parts of a batch: of a small one, and of a write in pieces, each is read here, when
        it is called for; any other is read by Spark's tasks, now."""
        if noted is None:
            rows = make_frame().toArrow()
            return [lambda: (rows, SourceFiles(self._store))] if rows.num_rows else []
        if len(noted) == 1:
            # A failure to read is Spark's to meet, before the batch counts as begun.
            read = self._read(noted[0], whole=True)
            return [lambda: read] if read[0].num_rows else []
        whole = self._options.max_batch_bytes <= self._options.driver_batch_bytes
        return [partial(self._read, piece, whole=whole) for piece in noted]

    def _begin_ahead(self, number: int, pieces: list[BatchManifest] | None) -> None:
        """Read and prepare a batch while Spark plans it; the one before it has ended."""
        self._ahead = None
        if pieces is not None and len(pieces) == 1:
            with suppress(RuntimeError):  # it is held: the source told of one more before it heard
                self._ahead = number, self._worker.submit(self._prepared, pieces[0])

    def _prepared(self, noted: BatchManifest) -> Ready | None:
        """What is left to do when Spark runs it; None: it has no rows."""
        read = self._read(noted, whole=True)
        if not read[0].num_rows:
            return None
        try:
            return self._prepare(self._spark, [lambda: read])
        except Exception as error:  # noqa: BLE001 -- raised when the batch counts as begun
            return partial(_raise, error)

    def _ready(self, make_frame: MakeFrame, number: int) -> Ready | None:
        """The same of a batch that Spark runs."""
        noted = self._source.batch(number)
        ahead, self._ahead = self._ahead, None
        if noted is not None and ahead is not None and ahead[0] == number:
            return ahead[1].result()
        parts = self._parts(make_frame, noted)
        return (lambda: self._prepare(self._spark, parts)()) if parts else None

    def _read(self, noted: BatchManifest, *, whole: bool) -> ReadRows:
        """The rows of these files; with `whole` keys and values of the inbox, too."""
        sources = SourceFiles(self._store)
        if self._options.kind == "journal":
            facts = fact_rows(self._store, noted.files, noted.fences)
            return pa.Table.from_batches(facts, FACT_ROWS), sources
        if not whole:
            return pa.Table.from_batches(
                project_rows(self._store, noted.files, self._suspects), SENT
            ), sources
        sources.load([f"inbox/{file.shard}/{file.path}" for file in noted.files])
        return pa.Table.from_batches(
            project_rows(sources, noted.files, self._suspects), SENT
        ), sources

    def _on_batch(self, make_frame: MakeFrame, number: int) -> None:
        ready = self._ready(make_frame, number)
        self.rehearsed.set()
        if ready is None:
            return  # the rehearsal
        with self._batch:
            try:
                if ready():
                    self.tell()
            except BaseException as error:
                # Spark wraps it in text; the process has to know which error it was.
                self.error = error
                raise


def _for_each_batch(
    spark: SparkSession, writer: DataStreamWriter, call: OnBatch
) -> DataStreamWriter:
    """Spark's `foreachBatch`, without a frame for each batch.

    PySpark makes a session and a frame each time, by seven calls to the JVM, and four more when
    both are collected. Nearly all batches need neither.
    """
    jvm_writer = getattr(writer, "_jwrite", None)
    gateway = getattr(getattr(spark, "_sc", None), "_gateway", None)
    if jvm_writer is None or gateway is None:  # Spark Connect
        return writer.foreachBatch(lambda frame, number: call(lambda: frame, number))
    helper = getattr(gateway.jvm, f"{_SOURCES}.PythonForeachBatchHelper")
    helper.callForeachBatch(jvm_writer, _BatchFunction(spark, call))
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    return writer


class _BatchFunction:
    """What the JVM calls. Py4J looks for `call` and `Java`."""

    def __init__(self, spark: SparkSession, call: OnBatch) -> None:
        self._spark = spark
        self._call = call

    def call(self, frame: Any, number: int) -> None:
        """Batch `number`, of a Dataset."""
        self._call(partial(_frame_of, frame, self._spark), number)

    class Java:
        """Which interface this is."""

        implements = (f"{_SOURCES}.PythonForeachBatchFunction",)


def _raise(error: Exception) -> bool:
    raise error


def _frame_of(frame: Any, spark: SparkSession) -> DataFrame:
    from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame  # not with Spark Connect

    return ClassicFrame(frame, spark)
