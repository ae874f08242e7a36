"""Order job and offsets job as two queries in one Spark driver: `python -m jobs.driver`.

Or `spark-submit jobs/driver.py`, to be run on a cluster.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import structlog
from pyspark.sql import SparkSession

if __package__ in {None, ""}:  # run as a file by spark-submit: find the packages beside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from lakequeue.processes.quick_start import importing

with importing():
    from coordination.zookeeper.notifications import Notifier
    from coordination.zookeeper.registry import FORMAT, register
    from coordination.zookeeper.session import Session
    from jobs.command_line.maintenance import say_report
    from jobs.command_line.options import Exit, JobOptions, StateFile, parse
    from jobs.folding.offsets_job import OffsetsJob
    from jobs.ordering.order_job import OrderJob
    from jobs.source.source import SourceOptions
    from jobs.streaming.backlog_report import backlog_report
    from jobs.streaming.driver_metrics import DriverMetrics
    from jobs.streaming.leader import Leader, StreamingJob
    from jobs.streaming.query import ShardQuery
    from jobs.streaming.session import start_session
    from jobs.streaming.work_folder import WorkFolder
    from lakequeue.clock import wall_micros
    from lakequeue.errors import Broken, CoordinationUnavailable, Fenced, LakequeueError
    from lakequeue.settings import Settings
    from lakequeue.tracing import export
    from queue_tables.files.commit_events import interval_of
    from queue_tables.root import QueueRoot, ShardKind
    from queue_tables.schema.formats import NUMBER

log = structlog.get_logger("driver")

CONNECT_S = 30.0
Intervals = tuple[float, float]
"""The least time between two batches, and while much comes in (seconds)."""
MakeJob = Callable[[QueueRoot, Settings, Session], tuple[StreamingJob, ShardKind, Intervals]]
"""-> the work, the shards it reads, how far apart its batches are"""


def order_job(
    root: QueueRoot, settings: Settings, session: Session
) -> tuple[StreamingJob, ShardKind, Intervals]:
    """The order job."""
    interval_ms = interval_of(settings.coordination.ring_interval_ms, root.store)
    notifier = Notifier(session, "log", interval_ms).start()
    job = OrderJob(root, settings.order, notifier, settings.driver.tables_s)
    return job, "inbox", (settings.order.batch_interval_s, settings.order.bulk_interval_s)


def offsets_job(
    root: QueueRoot, settings: Settings, session: Session
) -> tuple[StreamingJob, ShardKind, Intervals]:
    """The offsets job."""
    return OffsetsJob(root), "journal", (settings.offsets.fold_interval_s,) * 2


_READS: Mapping[MakeJob, tuple[str, ShardKind]] = {
    order_job: ("order", "inbox"),
    offsets_job: ("offsets", "journal"),
}
"""Name of the job, and the shards that it reads."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run both jobs until SIGTERM; returns an `Exit` code."""
    return run(
        argv,
        "python -m jobs.driver",
        "Order and offsets jobs of a queue, as two streaming queries in one Spark driver.",
        "driver",
        (order_job, offsets_job),
    )


def run(
    argv: Sequence[str] | None, prog: str, description: str, role: str, jobs: Sequence[MakeJob]
) -> int:
    """Run `works` in one driver until SIGTERM, or until one of them ends."""
    wake = threading.Event()
    stop = threading.Event()

    def ask_to_stop(_signal: int, _frame: object) -> None:
        stop.set()
        wake.set()

    try:
        options = parse(prog, description, argv, role)
        if options.dry_run:
            return _print_backlog(prog, options, jobs)
        process = _Process(prog, options, jobs, wake)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, ask_to_stop)
        exporting = export.start(role, options.node)
        process.start()
        wake.wait()
        code = process.end(asked=stop.is_set())
        exporting.stop()
        return code
    except (Broken, CoordinationUnavailable) as error:
        sys.stderr.write(f"{error}\n")
        return Exit.UNUSABLE
    except LakequeueError as error:
        sys.stderr.write(f"{error}\n")
        return Exit.FAILED


def _print_backlog(prog: str, options: JobOptions, jobs: Sequence[MakeJob]) -> int:
    root, now = QueueRoot.existing(options.settings.root), wall_micros()
    kinds = [_READS[job] for job in jobs]
    report = {name: backlog_report(root, kind, now) for name, kind in kinds}
    say_report({"job": prog, "dry_run": True, **report}, as_json=options.as_json)
    return Exit.STOPPED


class _Process:
    """The parts of one driver process, in the order they are started and ended."""

    def __init__(
        self, prog: str, options: JobOptions, jobs: Sequence[MakeJob], wake: threading.Event
    ) -> None:
        self._prog = prog
        self._options = options
        self._jobs = jobs
        self._wake = wake
        self._state = StateFile(options.work_dir, options.node, quiet=options.as_json)
        self._running: list[StreamingJob] = []
        self._leaders: list[Leader] = []
        self._queries: list[ShardQuery] = []
        settings = options.settings
        self._root = QueueRoot.open(settings.root, needs=())
        self._work_folder = WorkFolder(options.work_dir, options.node)
        self._folder = self._work_folder.path
        # A successor of this name closes the session of a killed one at once, and so need not
        # wait out its timeout to lead.
        self._session = Session(
            options.zookeeper,
            self._root.queue_id,
            options.node,
            settings.coordination,
            remember_in=options.work_dir / f"session-{options.node}",
        )
        self._watching = DriverMetrics(options.node, self._session, self._root, settings)

    def start(self) -> None:
        """Connect, start Spark, become a standby in each job."""
        self._session.start(CONNECT_S)
        if not self._options.available_now:
            # A run that ends has nobody who watches it.
            self._state.say(url=self._watching.start())
        info = {"pid": os.getpid(), FORMAT: NUMBER}
        register(self._session, "driver", self._options.node, info)
        spark = start_session("lakequeue", self._folder, self._options.settings.order.driver_memory)
        for make in self._jobs:
            self._start_job(spark, make)

    def _start_job(self, spark: SparkSession, make: MakeJob) -> None:
        settings, now = self._options.settings, self._options.available_now
        job, kind, intervals = make(self._root, settings, self._session)
        source = SourceOptions(
            root=self._root.uri,
            folder=self._folder,
            kind=kind,
            max_batch_bytes=settings.order.max_batch_bytes,
            driver_batch_bytes=settings.order.driver_batch_bytes,
            poll_s=settings.order.poll_s,
            min_interval_s=intervals[0],
            bulk_interval_s=intervals[1],
            tasks=settings.order.tasks,
        )
        self._running.append(job)
        job.watch(self._watching.meters)
        query = ShardQuery(spark, source, job.prepare)
        query.start(self._folder / f"{kind}-checkpoint", available_now=now)
        leader = Leader(job, self._session, query, self._state.say, patient=not now)
        self._watching.add(leader, query)
        leader.start()
        self._queries.append(query)
        self._leaders.append(leader)
        for event in (leader.failed, query.ended):
            threading.Thread(
                target=self._when, args=(event,), name="when-ended", daemon=True
            ).start()

    def _when(self, event: threading.Event) -> None:
        event.wait()
        if event not in [q.ended for q in self._queries] or self._all_ended():
            self._wake.set()

    def _all_ended(self) -> bool:
        """With `--available-now` each query ends by itself; an error ends the process at once."""
        return any(q.error for q in self._queries) or all(q.ended.is_set() for q in self._queries)

    def end(self, *, asked: bool) -> int:
        """Finish what runs, resign, clean up; the exit code."""
        parts: list[Leader | ShardQuery] = [*self._leaders, *self._queries]
        errors = [part.error for part in parts if part.error]
        code = Exit.STOPPED
        if errors and not asked:
            code = Exit.FENCED if any(isinstance(e, Fenced) for e in errors) else Exit.FAILED
            log.error("driver.ended", code=code.name, error=str(errors[0]), exc_info=errors[0])
        for leader in self._leaders:
            leader.stop()
        self._watching.close()
        self._session.stop()
        report = {job.name: dict(job.done) for job in self._running}
        self._state.say(state="stopped", code=int(code), done=report)
        if self._options.as_json:
            say_report({"job": self._prog, "dry_run": False, **report}, as_json=True)
        self._work_folder.remove()
        return code


def leave(code: int) -> None:
    """End the process, and with it the JVM, which ends when its standard input closes.

    Without the interpreter's own way out: that would wait for Spark's threads, in a JVM that is
    in the middle of a trigger. Nothing is unfinished: batches are held, the session is closed.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    leave(main())
