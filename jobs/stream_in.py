"""Streams a Delta table, a Kafka topic or JSON files into a topic: `python -m jobs.stream_in`.

Each micro-batch is one commit of the queue, and one that Spark runs again adds nothing: what counts
is the checkpoint, which says what was read, and which batch of which query this is.
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if __package__ in {None, ""}:  # run as a file by spark-submit: find the packages beside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from jobs.command_line.options import Exit
from jobs.feeds.ended import said_of
from jobs.feeds.options import StreamOptions, parse
from jobs.feeds.refused_count import RefusedCount
from jobs.feeds.sources import Feed, documents_of, reader_options, record_columns
from jobs.streaming.session import start_session
from lakequeue.errors import Broken, LakequeueError
from lakequeue.processes.folders import make_private
from lakequeue.processes.spark_sessions import delta_settings
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore

Report = dict[str, Any]
_TOLD_S = 30.0
"""For so long the listener may be behind the end of its query."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM, or with `--available-now` until all is done; an `Exit` code."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        options = parse("jobs.stream_in", argv)
        work_dir = options.work_dir or Path(tempfile.gettempdir())
        make_private(work_dir)
        with tempfile.TemporaryDirectory(
            prefix="lakequeue-stream-in-", dir=work_dir, ignore_cleanup_errors=True
        ) as folder:
            check_topics(options)
            spark = start_session(
                "lakequeue-stream-in",
                Path(folder),
                options.driver_memory,
                _session_settings(options),
            )
            report = stream_in(spark, options, stop)
    except Broken as error:
        sys.stderr.write(f"{error}\n")
        return Exit.UNUSABLE
    except LakequeueError as error:
        sys.stderr.write(f"{error}\n")
        return Exit.FAILED
    except PySparkException as error:
        sys.stderr.write(f"{said_of(str(error)) or error}\n")
        return Exit.FAILED
    text = json.dumps(report) if options.as_json else _lines(report)
    sys.stdout.write(text + "\n")
    return Exit.STOPPED


def check_topics(options: StreamOptions) -> None:
    """Raise `UnknownTopic` or `RootUnusable` before Spark is started."""
    topics = TopicStore(QueueRoot.existing(options.root))
    for name in {options.feed.topic, options.feed.bad_topic} - {None}:
        topics.get(str(name))


def stream_in(spark: SparkSession, options: StreamOptions, stop: threading.Event) -> Report:
    """Run the query to its end, or until `stop`; what it did.

    Raises `StreamingQueryException` when it fails: started again, it goes on from its checkpoint.
    """
    feed = options.feed
    frame = records(spark, feed)
    report: Report = {
        "job": "jobs.stream_in",
        "source": feed.kind,
        "from": feed.source,
        "topic": feed.topic,
        "checkpoint": options.checkpoint,
        "dry_run": options.dry_run,
    }
    if options.dry_run:
        return report | {"columns": {f.name: f.dataType.simpleString() for f in frame.schema}}
    writer = (
        frame.writeStream.format("lakequeue")
        .queryName(options.name)
        .option("root", options.root)
        .option("checkpointLocation", options.checkpoint)
    )
    writer = writer.option("topic", feed.topic)
    if feed.bad_topic is not None:
        writer = writer.option("badTopic", feed.bad_topic)
    if options.available_now:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=options.interval)
    refused = RefusedCount(options.root)
    counts = _Counts(options.name, refused)
    spark.streams.addListener(counts)
    began = time.monotonic()
    try:
        query = writer.start()
        threading.Thread(
            target=_set_when_ended, args=(query, stop), name="await-stream-in", daemon=True
        ).start()
        stop.wait()
        # Stopped within a batch, that batch is run again by the next start, and adds nothing.
        query.stop()
        counts.ended.wait(_TOLD_S)
        error = query.exception()
        if error is not None:
            raise error
    finally:
        spark.streams.removeListener(counts)
    done = {"batches": counts.batches, "rows_read": counts.rows_read, "query_id": str(query.id)}
    if feed.bad_topic is not None:
        done["refused"] = refused.of(str(query.id), str(query.runId))
    return report | done | {"seconds": round(time.monotonic() - began, 3)}


def records(spark: SparkSession, feed: Feed) -> DataFrame:
    """The stream of the source, with the columns that the sink takes."""
    reader = spark.readStream.options(**reader_options(feed))
    match feed.kind:
        case "kafka":
            frame = reader.format("kafka").load()
        case "delta" if "/" in feed.source:
            frame = reader.format("delta").load(feed.source)
        case "delta":
            frame = reader.table(feed.source)
        case "json":
            # As text: a record is what stands there, whatever its fields.
            frame = reader.format("text").load(feed.source)
            frame = frame.select(sf.col("_metadata.file_path").alias("_file"), "value")
            if feed.whole_files:
                taken_apart = sf.explode(
                    sf.udf(documents_of, "array<string>", useArrow=False)("value")
                )
                frame = frame.select("_file", taken_apart.alias("value"))
            frame = frame.where(sf.col("value").rlike(r"\S"))
    columns = record_columns(feed)
    return frame.selectExpr(*(f"{sql} AS `{name}`" for name, sql in columns.items()))


class _Counts(StreamingQueryListener):
    """Counts what the query of one name has done. Called by a thread of Spark's."""

    def __init__(self, name: str, refused: RefusedCount) -> None:
        self._name = name
        self._refused = refused
        self._run: object = None
        self.batches = 0
        self.rows_read = 0
        self.ended = threading.Event()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 -- Spark's name
        if event.name == self._name:
            self._run = event.runId

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 -- Spark's name
        if event.progress.runId == self._run and event.progress.numInputRows:
            self.batches += 1
            self.rows_read += event.progress.numInputRows
            # Now and then: commits are not kept for ever.
            self._refused.of(str(event.progress.id), str(event.progress.runId))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 -- Spark's name
        """Nothing to count."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 -- Spark's name
        if event.runId == self._run:
            self.ended.set()


def _set_when_ended(query: Any, stop: threading.Event) -> None:
    try:
        query.awaitTermination()
    except PySparkException:
        pass  # `query.exception()` says it
    finally:
        stop.set()


def _session_settings(options: StreamOptions) -> dict[str, str]:
    """What the source needs in a Spark that we start ourselves; `--conf` goes before it."""
    settings: dict[str, str] = {}
    if options.feed.kind == "delta":
        settings = delta_settings()
    elif options.feed.kind == "kafka" and "spark.driver.extraClassPath" not in options.conf:
        from pyspark import __version__

        package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{__version__}"
        settings = {"spark.jars.packages": package}
    return settings | dict(options.conf)


def _lines(report: Report) -> str:
    return "\n".join(f"{name}: {value}" for name, value in report.items())


if __name__ == "__main__":
    sys.exit(main())
