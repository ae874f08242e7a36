"""Ten records by `availableNow`: by `format("lakequeue")`, and by two sources of Spark itself.

    python -m bench.sessions.first_query [--rounds 5]

Three sessions of `lakequeue.spark.session()`, each in a process of its own, read the same ten
records: out of a queue, out of a topic of Apache Kafka by Spark's source for it, and out of a text
file by the source `text`. Each session begins with another one, so that the beginnings can be
compared: what they have in common is Spark's own. Then all take turns, warm. Times go up with the
load of a machine, so read the ratios; processor time is that of the session and of all its
processes. Writes bench/sessions/first_query.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil

from bench import machine
from queue_tables.root import QueueRoot
from tests.support.data.log_builder import LogBuilder
from tests.support.spark.kafka import kafka_broker, source_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC, RECORDS = "bench", 10
OURS, KAFKA, TEXT = "lakequeue", "kafka", "text"
KINDS = (OURS, KAFKA, TEXT)


class Places(NamedTuple):
    """Where the records are."""

    root: str
    servers: str
    """Of Kafka."""

    @property
    def text(self) -> Path:
        """A folder with one file."""
        return Path(f"{self.root}-text")

    def options(self, kind: str, streaming: bool) -> dict[str, str]:
        """What a reader of this kind is given."""
        if kind == TEXT:
            return {"path": str(self.text)}
        place = {OURS: {"root": self.root}, KAFKA: {"kafka.bootstrap.servers": self.servers}}[kind]
        begin = {"startingOffsets": "earliest"} if streaming else {}
        return {"subscribe": TOPIC} | place | begin


Took = dict[str, list[tuple[float, float]]]
"""Of each step, in order: seconds, and processor seconds."""


class Clock:
    """Measures steps: how long they take, and how much this process and all below it work."""

    def __init__(self) -> None:
        self.took: Took = {}
        self._seen: dict[tuple[int, float], float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Add one measurement of `name`."""
        began, spent = time.perf_counter(), self._cpu()
        yield
        took = time.perf_counter() - began
        self.took.setdefault(name, []).append((round(took, 2), round(self._cpu() - spent, 2)))
        sys.stderr.write(f"{name}: {self.took[name][-1]}\n")

    def _cpu(self) -> float:
        me = psutil.Process()
        for process in (me, *me.children(recursive=True)):
            try:
                times, began = process.cpu_times(), process.create_time()
            except psutil.NoSuchProcess:
                continue
            ended = times.children_user + times.children_system
            self._seen[process.pid, began] = times.user + times.system + ended
        return sum(self._seen.values())


def _stream(spark: SparkSession, kind: str, places: Places, folder: Path, number: int) -> None:
    """One query that takes all there is and ends; its checkpoint is its own."""
    query = (
        spark.readStream.format(kind)
        .options(**places.options(kind, streaming=True))
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / f"{kind}-{number}"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = sum(progress.numInputRows for progress in query.recentProgress)
    assert rows == RECORDS, f"{kind} took {rows} records of {RECORDS}"


def _batch(spark: SparkSession, kind: str, places: Places) -> None:
    reader = spark.read.format(kind).options(**places.options(kind, streaming=False))
    assert len(reader.load().collect()) == RECORDS


def _send_to_kafka(servers: str, values: list[str]) -> None:
    """By Spark's own sink, in a process of its own."""
    spark = _session()
    frame = spark.createDataFrame([(value,) for value in values], "value string")
    frame.coalesce(1).write.format("kafka").option("kafka.bootstrap.servers", servers).option(
        "topic", TOPIC
    ).save()
    spark.stop()


def _session() -> SparkSession:
    import lakequeue.spark
    from lakequeue.processes.spark_sessions import delta_settings

    delta = delta_settings()["spark.driver.extraClassPath"]
    path = ":".join((delta, *map(str, source_jars())))
    return lakequeue.spark.session(conf={"spark.driver.extraClassPath": path})


def one_session(places: Places, folder: Path, first: str, rounds: int) -> Took:
    """In a process of its own: what each step takes."""
    clock = Clock()
    with clock.step("import"):
        import lakequeue.spark  # noqa: F401 -- what a script begins with
    with clock.step("session"):
        spark = _session()
    for kind in (first, *(kind for kind in KINDS if kind != first)):
        with clock.step(f"first {kind}"):
            _stream(spark, kind, places, folder, 0)
    for number in range(1, rounds + 1):
        for kind in KINDS:
            with clock.step(f"warm {kind}"):
                _stream(spark, kind, places, folder, number)
    for number in range(rounds + 1):
        for kind in KINDS:
            with clock.step(f"batch {kind}" if number else f"first batch {kind}"):
                _batch(spark, kind, places)
    spark.stop()
    return clock.took


def _in_its_own_process(places: Places, folder: Path, first: str, rounds: int) -> Took:
    command = [sys.executable, "-m", "bench.sessions.first_query", "--rounds", str(rounds)]
    command += ["--root", places.root, "--servers", places.servers]
    done = subprocess.run(
        [*command, "--session", first, "--folder", str(folder / first)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: Took = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(rounds: int) -> dict[str, Any]:
    """All sessions, one after the other."""
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        root = QueueRoot.open(str(folder / "queue"))
        log = LogBuilder(root)
        values = [f"record {i}" for i in range(RECORDS)]
        log.append(log.topic(TOPIC, 1), values)
        (folder / "kafka").mkdir()
        broker = running.enter_context(kafka_broker(folder / "kafka", partitions=1))
        places = Places(root.uri, broker.address)
        places.text.mkdir()
        (places.text / "records.txt").write_text("\n".join(values))
        with ProcessPoolExecutor(1, get_context("spawn")) as other:
            other.submit(_send_to_kafka, broker.address, values).result()
        load = os.getloadavg()[0]
        sessions = {kind: _in_its_own_process(places, folder, kind, rounds) for kind in KINDS}
    found: dict[str, Any] = {"machine": machine.describe(), "load": [load, os.getloadavg()[0]]}
    for step in ("warm", "batch"):
        found[step] = {}
        for kind in KINDS:
            all_of_it = [each for took in sessions.values() for each in took[f"{step} {kind}"]]
            found[step][kind] = [round(median(each[i] for each in all_of_it), 2) for i in (0, 1)]
    found["until the first query has ended"] = {
        kind: [
            round(sum(took[step][0][i] for step in ("import", "session", f"first {kind}")), 2)
            for i in (0, 1)
        ]
        for kind, took in sessions.items()
    }
    return found | {"sessions": sessions}


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--session", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--root", help=argparse.SUPPRESS)
    parser.add_argument("--servers", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.session:
        print(
            json.dumps(
                one_session(Places(args.root, args.servers), args.folder, args.session, args.rounds)
            )
        )
        return
    found = json.dumps(measure(args.rounds), indent=1)
    (Path(__file__).parent / "first_query.json").write_text(found + "\n")
    print(found)


if __name__ == "__main__":
    main()
