"""The order leader starts the maintenance jobs now and then, each as a process of its own.

Not a thread: copying hours of values would hold the interpreter while batches wait. One at a time,
at a low priority; it dies with this process, and the next leader's run goes on where it was.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence

import structlog

from lakequeue.clock import boot_seconds
from lakequeue.processes import parent, programs
from lakequeue.settings import OrderSettings

log = structlog.get_logger("upkeep")

MEASURES = "metrics"
JOBS = (MEASURES, "compaction", "retention")
"""In this order: what is measured may go then; what compaction parts by topic, retention can let
go."""
_NICE = 10
LONGEST_S = 3_600.0
"""A run that takes longer hangs, and would end maintenance for as long as this leader lives. It is
killed, which every step of it can bear."""


def jobs_of(settings: OrderSettings) -> tuple[str, ...]:
    """The jobs that this leader runs. Pure."""
    return tuple(job for job in JOBS if settings.metrics or job != MEASURES)


class MaintenanceRuns:
    """Runs `jobs` one after the other, again every `interval_s` (0: never).

    `root` is the queue's URI. Used by the one thread that upkeep runs in, which must live as long
    as the runs should.
    """

    def __init__(
        self,
        root: str,
        interval_s: float,
        clock: Callable[[], float] = boot_seconds,
        jobs: Sequence[str] = JOBS,
    ) -> None:
        self._root = root
        self._interval_s = interval_s
        self._clock = clock
        self._jobs = tuple(jobs)
        # Not at once: a driver that has just started has better things to do.
        self._due_at = clock() + interval_s
        self._left: list[str] = []
        self.ended: Callable[[str, str], None] = lambda _job, _outcome: None
        """Told of each run's end: done or failed."""
        self._running: tuple[str, subprocess.Popen[bytes]] | None = None
        self._began = 0.0

    def running(self) -> subprocess.Popen[bytes] | None:
        """The process of the run under way."""
        return None if self._running is None else self._running[1]

    def run_if_due(self) -> None:
        """See whether a run has ended, and start the next one if it is due. Never blocks."""
        if self._interval_s <= 0 or not self._ended():
            return
        if not self._left and self._clock() >= self._due_at:
            self._left = list(self._jobs)
            self._due_at = self._clock() + self._interval_s
        if self._left:
            self._start(self._left.pop(0))

    def _ended(self) -> bool:
        if self._running is None:
            return True
        job, process = self._running
        code = process.poll()
        if code is None:
            if self._clock() - self._began > LONGEST_S:
                log.warning("maintenance.hung", job=job, seconds=LONGEST_S)
                process.kill()
            return False
        self._running = None
        self.ended(job, "failed" if code else "done")
        if code:
            # Its own words stand in this process's log; it is tried again at the next occasion.
            log.warning("maintenance.failed", job=job, code=code)
        else:
            log.info("maintenance.finished", job=job)
        return True

    def _start(self, job: str) -> None:
        command = [*programs.command(f"jobs.{job}"), "--root", self._root, "--json"]
        bound = [sys.executable, "-I", parent.__file__, str(os.getpid())]
        try:
            # The report goes to the log as well: stdout is where the driver tells its state.
            process = subprocess.Popen(
                [*bound, *command],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),
                env=programs.environment(),
            )
        except OSError as error:
            log.warning("maintenance.failed", job=job, why=str(error))
            return
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
        self._running, self._began = (job, process), self._clock()
