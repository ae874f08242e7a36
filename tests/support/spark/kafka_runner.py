"""Runs the notebook on a broker and on a queue, in one Spark session, and prints what each shows.

python -m tests.support.spark.kafka_runner --broker HOST:PORT --root DIR --folder DIR
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from jobs.feeds.options import parse
from jobs.stream_in import stream_in
from lakequeue.processes.jars import jar_paths
from lakequeue.processes.java import find_java
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.root import QueueRoot
from tests.support.services.zookeeper import wait_for
from tests.support.spark.checkpoint import forget_the_last_batch
from tests.support.spark.kafka import source_jars
from tests.support.spark.notebook import CELL

NOTEBOOK = Path(__file__).parent / "notebooks" / "kafka.py"


def notebook(source: str, server: tuple[str, str]) -> list[str]:
    """The cells of the notebook, with its two lines changed."""
    text = NOTEBOOK.read_text()
    for line, changed in (
        ('FORMAT = "kafka"', f"FORMAT = {source!r}"),
        ('SERVER = ("kafka.bootstrap.servers", "localhost:9092")', f"SERVER = {server!r}"),
    ):
        assert text.count(line) == 1
        text = text.replace(line, changed)
    return text.split(CELL)


def run(
    spark: SparkSession, cells: list[str], folder: Path, after: Callable[[], object]
) -> dict[str, Any]:
    """What the notebook shows; `after` is called after each cell."""
    shown: dict[str, Any] = {}

    def show(name: str, what: Any) -> None:
        if isinstance(what, DataFrame):
            shown[name] = sorted(json.dumps(r, default=_text) for r in what.toArrow().to_pylist())
        else:
            shown[name] = what

    names = {"spark": spark, "show": show, "folder": str(folder)}
    for cell in cells:
        exec(compile(cell, str(NOTEBOOK), "exec"), names)  # noqa: S102 -- a notebook is run
        after()
    return shown


def stream_in_orders(
    spark: SparkSession, broker: str, root: QueueRoot, folder: Path
) -> dict[str, Any]:
    """What Kafka's topic holds, and the topic `fed` after the job `stream_in` has run on it.

    Its second run repeats the last batch of the first; the third finds nothing new.
    """
    options = parse(
        "jobs.stream_in",
        [
            *("kafka", "--servers", broker, "--subscribe", "orders", "--keep-partitions"),
            *("--option", "maxOffsetsPerTrigger=90", "--root", root.uri, "--topic", "fed"),
            *("--checkpoint", str(folder / "fed"), "--available-now"),
        ],
    )
    runs = [stream_in(spark, options, threading.Event())]
    forget_the_last_batch(folder / "fed")
    runs += [stream_in(spark, options, threading.Event()) for _ in range(2)]
    wait_for(lambda: all_ordered(root), "ordering", 60.0)
    shown: dict[str, Any] = {"runs": [[run["batches"], run["rows_read"]] for run in runs]}
    for source, given, topic in (
        ("kafka", {"kafka.bootstrap.servers": broker}, "orders"),
        ("lakequeue", {"root": root.uri}, "fed"),
    ):
        reader = spark.read.format(source).options(**given, subscribe=topic, includeHeaders="true")
        rows = reader.load().drop("topic", "timestampType").toArrow().to_pylist()
        shown[source] = sorted(json.dumps(row, default=_text) for row in rows)
    return shown


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else bytes(value).hex()


def all_ordered(root: QueueRoot) -> bool:
    """Whether every commit of every inbox shard is in the log."""
    marks = load_snapshot(root.store, "log", keep_files=False).txns
    stamps = {
        s: load_snapshot(root.store, f"inbox/{s}", keep_files=False).txns.get("stamp", 0)
        for s in root.shards("inbox")
    }
    return all(marks.get(f"inbox/{s}", 0) >= stamp for s, stamp in stamps.items())


def main() -> int:
    """Both runs; one JSON object a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", required=True)
    parser.add_argument("--root", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    args = parser.parse_args()
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.driver.extraClassPath", ":".join(map(str, [*jar_paths(), *source_jars()])))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    root = QueueRoot.existing(args.root)
    kafka = notebook("kafka", ("kafka.bootstrap.servers", args.broker))
    queue = notebook("lakequeue", ("root", args.root))
    for name, cells, after in (
        ("kafka", kafka, lambda: None),
        ("lakequeue", queue, lambda: wait_for(lambda: all_ordered(root), "ordering", 60.0)),
    ):
        shown = run(spark, cells, args.folder / name, after)
        sys.stdout.write(f"SHOWN {json.dumps([name, shown])}\n")
    fed = stream_in_orders(spark, args.broker, root, args.folder)
    sys.stdout.write(f"SHOWN {json.dumps(['stream_in', fed])}\n")
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
