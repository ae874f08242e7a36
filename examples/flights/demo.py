"""The demo: a year of departures through the whole queue, with a consumer killed on the way.

Starts the queue on a new root, replays the departures through several producers, consumes them
with a group of three of which one is killed with SIGKILL and replaced by a fourth, then proves
from the tables, in SQL, that nothing was lost, doubled or reordered. It leaves a picture of the
run and the SQL beside its root. The last line is the verdict.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from examples.flights.departures import GROUP, PARTITIONS, TOPIC, TOTAL
from examples.flights.picture import Sample, Story, draw
from examples.flights.proof import Proof, as_file, prove, told
from examples.flights.recording import Acknowledged, Received
from examples.flights.screen import Counts, Screen
from lakequeue.client.admin import Admin
from lakequeue.errors import LakequeueError, UnknownGroup
from lakequeue.processes.folders import local_root
from lakequeue.wire import GroupDescription
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions
from lakequeue_cli.supervisor.preflight import default_work_dir

PRODUCERS = 3
SESSION_TIMEOUT_MS = 6_000
STALLED_AFTER_S = 120.0


class Demo:
    """One run on one root."""

    def __init__(self, cluster: Cluster, folder: Path, records: int, screen: Screen) -> None:
        self._cluster = cluster
        self._folder = folder
        self._records = records
        self._screen = screen
        self._admin = Admin(cluster.ingest_urls, cluster.consumer_urls)
        self._acknowledged = Acknowledged(folder)
        self._received = Received(folder)
        self._consumers: dict[str, subprocess.Popen[bytes]] = {}
        self._group: GroupDescription | None = None
        self._sent = 0
        self._began = time.monotonic()
        self.story = Story()

    def run(self) -> None:
        """Produce and consume everything; returns when the group has no lag."""
        self._admin.create_topic(TOPIC, partitions=PARTITIONS)
        self._screen.say(
            f"{PRODUCERS} producers send the departures, one process each; 3 consumers share the "
            f"{PARTITIONS} partitions as the group {GROUP}"
        )
        for name in ("1", "2", "3"):
            self._start_consumer(name)
        producers = [self._start_producer(i) for i in range(PRODUCERS)]
        try:
            self._wait(lambda c: c.delivered > self._records * 0.3, producers)
            self._consumers["2"].kill()
            self._note("consumer 2 killed")
            self._screen.say(
                "consumer 2 is killed with SIGKILL, in the middle of its work. That is safe: when "
                f"its session ends ({SESSION_TIMEOUT_MS / 1_000:g} s),\n  other consumers take "
                "over its partitions. They get every record that it had not acked, and none\n"
                "  that it had acked: its acks are rows of a table, and not only in its memory"
            )
            self._wait(lambda c: c.delivered > self._records * 0.5, producers)
            self._start_consumer("4")
            self._note("consumer 4 joins")
            self._screen.say("consumer 4 joins the group and gets its share of the partitions")
            self._wait(self._caught_up, producers)
        finally:
            for process in (*producers, *self._consumers.values()):
                if process.poll() is None:
                    process.terminate()
            for process in (*producers, *self._consumers.values()):
                process.wait(timeout=30)

    def _start_producer(self, index: int) -> subprocess.Popen[bytes]:
        return self._start(
            "producer",
            *("--url", self._cluster.ingest_urls[0], "--index", str(index)),
            *("--of", str(PRODUCERS), "--records", str(self._records)),
        )

    def _start_consumer(self, name: str) -> None:
        self._consumers[name] = self._start(
            *("consumer", "--url", self._cluster.consumer_urls[0], "--name", name),
            *("--session-timeout-ms", str(SESSION_TIMEOUT_MS)),
        )

    def _start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                *(sys.executable, "-m", f"examples.flights.{module}"),
                *("--folder", str(self._folder), *arguments),
            ]
        )

    def _note(self, what: str) -> None:
        self.story.events.append((time.monotonic() - self._began, what))

    def _caught_up(self, counts: Counts) -> bool:
        return (
            # Each producer has also written down that its last send was acknowledged.
            self._sent == self._records == counts.delivered
            and self._group is not None
            and all(p.lag == 0 for p in self._group.partitions)
        )

    def _wait(
        self, until: Callable[[Counts], bool], producers: list[subprocess.Popen[bytes]]
    ) -> None:
        tick = threading.Event()
        last, moved_at = Counts(), time.monotonic()
        while True:
            counts = self._count()
            self._screen.show(counts, self._group)
            if until(counts):
                return
            if any(p.poll() not in {None, 0} for p in producers):
                raise SystemExit("demo: a producer failed; see its message above")
            if counts != last:
                last, moved_at = counts, time.monotonic()
            if time.monotonic() - moved_at > STALLED_AFTER_S:
                raise SystemExit(f"demo: nothing has moved for {STALLED_AFTER_S:g} s: {counts}")
            tick.wait(0.25)

    def _count(self) -> Counts:
        try:
            self._group = self._admin.group(GROUP)
        except UnknownGroup:
            self._group = None  # until the first consumer has joined
        partitions = self._group.partitions if self._group else []
        received = self._received.count()
        self._sent = self._acknowledged.count()
        counts = Counts.of(self._sent, sum(p.end_offset for p in partitions), received)
        self.story.samples.append(
            Sample(
                time.monotonic() - self._began,
                counts.produced,
                counts.ordered,
                counts.delivered,
                dict(self._received.by_consumer),
            )
        )
        return counts


def main() -> int:
    """Run the demo; 0 only if the proof holds."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--records", type=int, default=TOTAL, help=f"1 to {TOTAL}")
    parser.add_argument(
        "--root", default="var/demo", help="a folder, emptied first, or s3://…: a new queue below"
    )
    args = parser.parse_args()
    if not 1 <= args.records <= TOTAL:
        parser.error(f"--records is 1 to {TOTAL}")

    root, folder = places(args.root)
    shutil.rmtree(folder.parent, ignore_errors=True)
    folder.mkdir(parents=True)
    with Screen(args.records) as screen:
        screen.say("starting ZooKeeper, ingest, order and offsets jobs, consumer service …")
        try:
            with Cluster(ClusterOptions(root=root)) as cluster:
                cluster.wait_ready()
                screen.say(f"the queue is up on {root}")
                began = time.monotonic()
                demo = Demo(cluster, folder, args.records, screen)
                demo.run()
                seconds = time.monotonic() - began
                screen.say(
                    "everything is read; the proof asks the table `log` in SQL, and compares"
                )
                screen.say("  it with what each process wrote down of its own sends and records:")
                proof = prove(root, folder)
        except LakequeueError as e:
            screen.say(f"demo: {e}")
            return 1
    picture, sql = folder.parent / "run.svg", folder.parent / "proof.sql"
    picture.write_text(draw(demo.story, args.records, proof.line))
    sql.write_text(as_file(root, folder))
    for line in told(proof):
        print(line)
    print(f"the SQL: {sql}    a picture of the run: {picture}")
    _report(proof, seconds, args.records)
    return 0 if proof.holds(args.records) else 1


def places(given: str) -> tuple[str, Path]:
    """Root of the queue, and the local folder of the recordings, whose parent is emptied."""
    folder = local_root(given)
    if folder is not None:
        return str(folder / "queue"), folder / "recordings"
    # A run must not empty a bucket, so each run has a queue of its own there.
    root = f"{given.rstrip('/')}/{uuid.uuid4().hex[:8]}"
    return root, default_work_dir(root) / "recordings"


def _report(proof: Proof, seconds: float, records: int) -> None:
    print(f"{records / seconds:,.0f} records/s through ingest, order and three consumers")
    print(proof.line)


if __name__ == "__main__":
    sys.exit(main())
