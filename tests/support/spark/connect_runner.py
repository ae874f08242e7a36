"""What notebooks and jobs do on a cluster, over a local Spark Connect server; prints what came.

    python -m tests.support.spark.connect_runner --root DIR --folder DIR

The server is in this process's JVM, and listens on a free port of the loopback interface. The
records that are written must be ordered meanwhile, by whoever started this.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lakequeue.spark
from jobs.feeds.options import parse
from jobs.stream_in import stream_in
from lakequeue.processes.java import find_java
from pyspark_lakequeue.session.views import main as views_main
from queue_tables.root import QueueRoot
from tests.support.services.zookeeper import wait_for
from tests.support.spark.kafka_runner import all_ordered
from tests.support.spark.spark_session import settings

RECORDS = 60


def start(folder: Path) -> SparkSession:
    """A session over Spark Connect, with Delta Lake on the server."""
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # A free port instead of 15002; the client asks the server which one.
    os.environ["SPARK_TESTING"] = "1"
    builder = SparkSession.builder.remote("local[2]")
    more = {"spark.connect.grpc.binding.address": "127.0.0.1"}
    for name, value in (settings(folder) | more).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


class Notebook:
    """What is tried, in this order: each builds on what is there then."""

    def __init__(self, spark: SparkSession, root: QueueRoot, folder: Path) -> None:
        self._spark, self._root, self._folder = spark, root, folder

    def is_connect(self) -> Any:
        """Whether this is a session of Spark Connect at all."""
        return type(self._spark).__module__

    def write_a_frame(self) -> Any:
        """`df.write`; the rows that are there afterwards."""
        frame = self._spark.range(RECORDS).selectExpr(
            "concat('k', id % 5) AS key", "to_json(struct(id, id % 3 AS kind)) AS value"
        )
        frame.write.format("lakequeue").options(root=self._root.uri, topic="orders").mode(
            "append"
        ).save()
        return self._records("orders")

    def write_a_stream(self) -> Any:
        """`df.writeStream`, as the job `stream_in` does it, twice; what is there, what it says."""
        table = str(self._folder / "table")
        self._spark.range(RECORDS).write.format("delta").save(table)
        options = parse(
            "jobs.stream_in",
            [
                *("delta", "--table", table, "--root", self._root.uri, "--topic", "fed"),
                *("--checkpoint", str(self._folder / "fed"), "--available-now"),
            ],
        )
        runs = [stream_in(self._spark, options, threading.Event()) for _ in range(2)]
        return [[run["rows_read"] for run in runs], self._records("fed")]

    def refuse_wrong_options(self) -> Any:
        """What is said of an option that does not exist."""
        reader = self._spark.read.format("lakequeue").options(root=self._root.uri)
        try:
            reader.options(subscribe="orders", startingOffset="earliest").load().count()
        except PySparkException as error:
            return str(error)
        return "taken"

    def read_a_stream_into_delta(self) -> Any:
        """`DeltaSink`, and again with an empty checkpoint: rows, and distinct ones."""
        name = lakequeue.spark.register(self._spark, "lakequeue_report")
        target = str(self._folder / "report")
        sink = lakequeue.spark.DeltaSink(
            self._root.uri,
            target,
            "report",
            lambda frame: frame.selectExpr("partition", "offset", "cast(value AS string) value"),
        )
        for checkpoint in ("one", "another"):
            stream = self._spark.readStream.format(name).options(
                root=self._root.uri, subscribe="orders", startingOffsets="earliest"
            )
            query = (
                stream.option("maxOffsetsPerTrigger", 25)
                .load()
                .writeStream.foreachBatch(sink)
                .option("checkpointLocation", str(self._folder / checkpoint))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
        rows = self._spark.read.format("delta").load(target)
        return [rows.count(), rows.distinct().count()]

    def query_views(self) -> Any:
        """`create_views`, by function and by the scheduled job; what they show."""
        lakequeue.spark.create_views(self._spark, self._root.uri, "q")
        with contextlib.redirect_stdout(sys.stderr):
            code = views_main(["--root", self._root.uri, "--schema", "again"])
        count = "SELECT count(*) n, count(key_text) keys FROM {}.records WHERE topic = 'orders'"
        first, again = (self._spark.sql(count.format(schema)).head() for schema in ("q", "again"))
        return [
            code,
            list(first or ()),
            list(again or ()),
            self._spark.sql("SELECT * FROM q.backlog('nobody')").count(),
            sorted(row.topic for row in self._spark.sql("SELECT topic FROM q.topics").collect()),
        ]

    def _records(self, topic: str) -> list[int]:
        wait_for(lambda: all_ordered(self._root), "ordering", 60.0)
        reader = self._spark.read.format("lakequeue").options(root=self._root.uri, subscribe=topic)
        frame = reader.load().selectExpr("get_json_object(cast(value AS string), '$.id') AS id")
        return sorted(int(row.id) for row in frame.collect())


def main() -> int:
    """Try all of it; a JSON line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    args = parser.parse_args()
    spark = start(args.folder)
    notebook = Notebook(spark, QueueRoot.existing(args.root), args.folder)
    tried: list[Callable[[], Any]] = [
        notebook.is_connect,
        notebook.write_a_frame,
        notebook.write_a_stream,
        notebook.refuse_wrong_options,
        notebook.read_a_stream_into_delta,
        notebook.query_views,
    ]
    for attempt in tried:
        try:
            came: Any = attempt()
        except Exception:  # noqa: BLE001 -- the test says what should have come
            came = traceback.format_exc()[-3000:]
        sys.stdout.write(f"CAME {json.dumps([attempt.__name__, came])}\n")
        sys.stdout.flush()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
