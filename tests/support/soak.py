"""Load and random faults for as long as wanted, and the verdict: `make soak MINUTES=30`.

    python -m tests.support.soak --minutes 5 [--seed 7] [--rate 500] [--light]

A stream group (three consumer processes), a queue group (workers in threads), atomic requests with
a look at the log after each, and the nemesis (`nemesis.py`). Seed and history are kept on failure.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Protocol

from history_checker import GroupRequirements, Requirements, Verdict, check
from history_checker.history import Recorder, load
from history_checker.load import LoadConsumer, LoadProducer, wait_until
from history_checker.truth import truth
from jobs.streaming.backlog_report import backlog_report
from lakequeue.client.admin import Admin
from lakequeue.clock import wall_micros
from lakequeue.errors import LakequeueError
from queue_tables.root import QueueRoot
from tests.support.atomic_load import AtomicLoad
from tests.support.faults.faulty_cluster import FaultyCluster
from tests.support.faults.nemesis import BLOWS, ILLS, OF_SPARK, Fault, Nemesis, schedule
from tests.support.queue_load import Load, Worker

PARTITIONS = 4
WORKERS = 4
JOBS_RATE = 10
MAX_ATTEMPTS = 100
GRACE_S = 120.0
CALM_S = 3.0
DRAIN_S = 240.0


class Loaded(Protocol):
    """A queue that runs already."""

    @property
    def ingest_urls(self) -> Sequence[str]:
        """Where to send to."""

    @property
    def consumer_urls(self) -> Sequence[str]:
        """Where to read from."""

    @property
    def root(self) -> str:
        """Its tables."""


class SoakLoad:
    """A load on a queue, and its verdict; `name` makes its topics and groups its own."""

    def __init__(self, queue: Loaded, folder: Path, name: str, rate: int) -> None:
        self._queue = queue
        self._folder = folder
        self._rate = rate
        self.stream = self.stream_group = f"{name}-stream"
        self.jobs = self.queue_group = f"{name}-jobs"

    def under(self, disturb: Callable[[], None]) -> Verdict:
        """Load on, what is done to the queue meanwhile, calm, drained, judged."""
        queue, folder = self._queue, self._folder
        with ExitStack() as stack:
            admin = stack.enter_context(Admin(queue.ingest_urls, queue.consumer_urls, timeout_s=60))
            admin.create_topic(self.stream, partitions=PARTITIONS)
            admin.create_topic(self.jobs, partitions=2)
            consumers = [self._consumer(n, stack) for n in range(3)]
            stop_workers = self._work(stack)
            producers = [
                LoadProducer(
                    queue.ingest_urls, topic, folder, f"p{n}-{topic}", rate, lenient=True
                ).start()
                for n, (topic, rate) in enumerate(
                    [(self.stream, self._rate // 2)] * 2 + [(self.jobs, JOBS_RATE)]
                )
            ]
            atomic = AtomicLoad(queue.ingest_urls, queue.root, self.stream, folder)
            wait_until("records come", lambda: any(c.received() for c in consumers), 120)
            disturb()
            threading.Event().wait(CALM_S)  # what comes after the last fault is judged by its lag
            for producer in producers:
                producer.stop()
            atomic.stop()
            for group in (self.stream_group, self.queue_group):
                self._drain(admin, group)
            ended = [c.name for c in consumers if c.process.poll() is not None]
            assert not ended, (
                f"nobody stopped {ended}: an error has come through to the application"
            )
            stop_workers()
            for consumer in consumers:
                consumer.stop()
        return self._judge()

    def _consumer(self, number: int, stack: ExitStack) -> LoadConsumer:
        urls, name = self._queue.consumer_urls, f"c{number}"
        consumer = LoadConsumer(urls, self.stream, self.stream_group, self._folder, name)
        stack.callback(consumer.stop)
        return consumer

    def _work(self, stack: ExitStack) -> Callable[[], None]:
        """Start the workers of the queue group; what stops them, and raises what one died of."""
        asked = Load(
            topic=self.jobs,
            group=self.queue_group,
            max_attempts=MAX_ATTEMPTS,
            poison_share=0.0,
            visibility_ms=10_000,
        )
        stop = threading.Event()
        threads: list[threading.Thread] = []
        recorders: list[Recorder] = []
        failures: list[BaseException] = []

        def work(worker: Worker) -> None:
            try:
                worker.run(stop, [0])
            except BaseException as failure:  # noqa: BLE001 -- handed to whoever stops them
                failures.append(failure)

        for n in range(WORKERS):
            recorder = Recorder(self._folder / f"worker-{n}.jsonl", f"w{n}")
            worker = Worker(asked, [*self._queue.consumer_urls], recorder, n)
            thread = threading.Thread(target=work, args=(worker,), name=f"worker-{n}")
            thread.start()
            threads.append(thread)
            recorders.append(recorder)

        def end() -> None:
            stop.set()
            for thread in threads:
                thread.join(60)
            for recorder in recorders:
                recorder.close()
            if failures:
                raise failures.pop()

        stack.callback(end)
        return end

    def _drain(self, admin: Admin, group: str) -> None:
        """Until nothing is left, neither in front of the order job nor in front of the group."""
        root = QueueRoot.existing(self._queue.root)

        def ordered() -> bool:
            return bool(backlog_report(root, "inbox", wall_micros())["records"] == 0)

        def drained() -> bool:
            try:
                return all(p.lag == 0 for p in admin.group(group).partitions)
            except LakequeueError:
                return False

        # Producers have ended. A batch that is being ordered is no lag of anybody yet.
        wait_until("all is ordered", ordered, DRAIN_S)
        wait_until(f"{group} is drained", drained, DRAIN_S)

    def _judge(self) -> Verdict:
        topics, groups = (self.stream, self.jobs), (self.stream_group, self.queue_group)
        events = [
            *load(self._folder.glob("*.jsonl")),
            *truth(self._queue.root, topics, groups),
        ]
        stream = GroupRequirements(topics=(self.stream,), drained=True)
        queue = GroupRequirements(
            "queue", topics=(self.jobs,), drained=True, max_attempts=MAX_ATTEMPTS
        )
        requirements = {self.stream_group: stream, self.queue_group: queue}
        return check(events, Requirements(requirements, grace_s=GRACE_S))


class Soak(SoakLoad):
    """The load on a cluster that can be spoiled."""

    def __init__(self, faulty: FaultyCluster, folder: Path, name: str, rate: int) -> None:
        super().__init__(faulty, folder, name, rate)
        self._faulty = faulty

    def run(self, faults: Iterable[Sequence[Fault]], seed: int) -> Verdict:
        """Load on, all `faults` one after the other, calm, drained, judged."""

        def strike() -> None:
            nemesis = Nemesis(self._faulty, self._folder, seed)
            try:
                for together in faults:
                    nemesis.strike(together)
            finally:
                nemesis.close()

        return self.under(strike)


def timed(faults: Iterable[Sequence[Fault]], minutes: float) -> Iterable[Sequence[Fault]]:
    """As many of them as begin within that time."""
    until = time.monotonic() + 60 * minutes
    for fault in faults:
        if time.monotonic() > until:
            return
        yield fault


def main() -> int:
    """1 when there is an anomaly; then the folder with the history stays."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--rate", type=int, default=500, help="records a second")
    parser.add_argument("--folder", type=Path, help="where everything goes; kept")
    parser.add_argument("--light", action="store_true", help="without Spark (`light_driver.py`)")
    parser.add_argument("--faults", type=int, help="stop after so many")
    parser.add_argument("--only", nargs="*", help="only faults of these kinds")
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp(prefix="lakequeue-soak-"))
    history = folder / "history"
    history.mkdir(parents=True)
    sys.stdout.write(f"soak: seed {args.seed}, {args.minutes:g} minutes, in {folder}\n")
    sys.stdout.flush()
    faults = schedule(args.seed, args.only or [*BLOWS, *ILLS, *(() if args.light else OF_SPARK)])
    with FaultyCluster(folder, spark=not args.light) as faulty:
        faulty.cluster.wait_ready()
        soak = Soak(faulty, history, "soak", args.rate)
        verdict = soak.run(islice(timed(faults, args.minutes), args.faults), args.seed)
    sys.stdout.write(f"seed {args.seed}: {verdict}\n")
    if not verdict.ok:
        sys.stdout.write(f"history: {history}\n")
        return 1
    if args.folder is None:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
