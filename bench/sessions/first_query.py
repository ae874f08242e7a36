"""Ten records by `availableNow`: by `format("lakequeue")`, and by a source of Spark itself.

    python -m bench.sessions.first_query [--rounds 5]

Two sessions of `lakequeue.spark.session()`, each in a process of its own, read the same ten
records: out of a queue, and out of a text file by the source `text`. One session begins with the
queue, the other with the file, so that the beginnings can be compared: what they have in common is
Spark's own. Then both take turns, warm. Times go up with the load of a machine, so read the ratios;
processor time is that of the session and of all its processes.
Writes bench/sessions/first_query.json.
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
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import psutil

from bench import machine
from queue_tables.root import QueueRoot
from tests.support.data.log_builder import LogBuilder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC, RECORDS = "bench", 10
OURS, TEXT = "lakequeue", "text"
KINDS = (OURS, TEXT)

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


def _place(kind: str, root: str, streaming: bool) -> dict[str, str]:
    if kind == OURS:
        return {"root": root, "subscribe": TOPIC} | (
            {"startingOffsets": "earliest"} if streaming else {}
        )
    return {"path": f"{root}-text"}


def _stream(spark: SparkSession, kind: str, root: str, folder: Path, number: int) -> None:
    """One query that takes all there is and ends; its checkpoint is its own."""
    query = (
        spark.readStream.format(kind)
        .options(**_place(kind, root, streaming=True))
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / f"{kind}-{number}"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = sum(progress.numInputRows for progress in query.recentProgress)
    assert rows == RECORDS, f"{kind} took {rows} records of {RECORDS}"


def _batch(spark: SparkSession, kind: str, root: str) -> None:
    frame: DataFrame = spark.read.format(kind).options(**_place(kind, root, streaming=False)).load()
    assert len(frame.collect()) == RECORDS


def one_session(root: str, folder: Path, first: str, rounds: int) -> Took:
    """In a process of its own: what each step takes."""
    clock = Clock()
    with clock.step("import"):
        import lakequeue.spark
    with clock.step("session"):
        spark = lakequeue.spark.session()
    for kind in (first, *(kind for kind in KINDS if kind != first)):
        with clock.step(f"first {kind}"):
            _stream(spark, kind, root, folder, 0)
    for number in range(1, rounds + 1):
        for kind in KINDS:
            with clock.step(f"warm {kind}"):
                _stream(spark, kind, root, folder, number)
    for number in range(rounds + 1):
        for kind in KINDS:
            with clock.step(f"batch {kind}" if number else f"first batch {kind}"):
                _batch(spark, kind, root)
    spark.stop()
    return clock.took


def _in_its_own_process(root: str, folder: Path, first: str, rounds: int) -> Took:
    command = [sys.executable, "-m", "bench.sessions.first_query", "--rounds", str(rounds)]
    done = subprocess.run(
        [*command, "--session", first, "--root", root, "--folder", str(folder / first)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: Took = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(rounds: int) -> dict[str, Any]:
    """Both sessions, one after the other."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root = QueueRoot.open(str(folder / "queue"))
        log = LogBuilder(root)
        values = [f"record {i}" for i in range(RECORDS)]
        log.append(log.topic(TOPIC, 1), values)
        text = folder / "queue-text"
        text.mkdir()
        (text / "records.txt").write_text("\n".join(values))
        load = os.getloadavg()[0]
        sessions = {kind: _in_its_own_process(root.uri, folder, kind, rounds) for kind in KINDS}
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
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.session:
        print(json.dumps(one_session(args.root, args.folder, args.session, args.rounds)))
        return
    found = json.dumps(measure(args.rounds), indent=1)
    (Path(__file__).parent / "first_query.json").write_text(found + "\n")
    print(found)


if __name__ == "__main__":
    main()
