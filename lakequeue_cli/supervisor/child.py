"""One child process: its start, its log, its end and that of whatever it started."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from lakequeue.clock import boot_seconds
from lakequeue.errors import LakequeueError, PortInUse
from lakequeue.processes import parent
from lakequeue_cli.supervisor.backoff import Backoff
from lakequeue_cli.supervisor.child_states import ALIVE, Cause, State, advance
from lakequeue_cli.supervisor.plan import ChildSpec
from lakequeue_cli.supervisor.preflight import port_is_free
from lakequeue_cli.supervisor.room import full_disk

_LOG_TAIL_BYTES = 4_000


class Child:
    """A child and what is known of it. Only the supervising thread changes it."""

    def __init__(self, spec: ChildSpec, log_dir: Path, environ: Mapping[str, str]) -> None:
        self.spec = spec
        self.name = spec.name
        self.log_path = log_dir / f"{spec.name}.log"
        self.state = State.DOWN
        self.backoff = Backoff()
        self.starts = 0
        self.last_exit: int | None = None
        self.due_at = 0.0
        """When a child that backs off is started, or one that drains is killed: boot seconds."""
        self.once: tuple[str, ...] = ()
        """Arguments for the next start alone: a crash point must not fire again for ever."""
        self.waits_for_room = False
        """It has ended because a disk is full, and is started again when that is over."""
        self._environ = dict(environ)
        self._started_at = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._pidfd = -1

    @property
    def pid(self) -> int:
        """Process id of the living child."""
        if self._process is None:
            raise LakequeueError(f"{self.name} is {self.state}, it has no process")
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it has a process."""
        return self.state in ALIVE

    def fileno(self) -> int:
        """A descriptor that becomes readable when the process ends."""
        return self._pidfd

    def take(self, cause: Cause) -> None:
        """Change the state."""
        self.state = advance(self.state, cause)

    def spawn(self) -> None:
        """Start the process, with its output appended to its log.

        In a process group of its own: a Ctrl-C at the terminal is for the supervisor, which ends
        the children in order. The kernel kills it when the *thread* that called this ends.
        """
        bound = [sys.executable, "-I", parent.__file__, str(os.getpid())]
        command = [*bound, *self.spec.command, *self.once]
        self.once = ()
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environ,
                start_new_session=True,
            )
        self._pidfd = os.pidfd_open(self._process.pid)
        self._started_at = boot_seconds()
        self.starts += 1
        self.take(Cause.SPAWNED)

    def ended(self) -> bool:
        """Whether the process has ended; it is not reaped yet, so its pid is still its own."""
        return bool(select.select([self._pidfd], [], [], 0)[0])

    def reap(self) -> float:
        """Take the exit code of an ended process, and kill what it left behind.

        Returns how long it ran, in seconds. Its group is killed before the pid is given back, so
        that the number cannot have become somebody else's.
        """
        if self._process is None:
            raise LakequeueError(f"{self.name} has no process to reap")
        self._signal_group(signal.SIGKILL)
        self.last_exit = self._process.wait()
        os.close(self._pidfd)
        self._pidfd = -1
        self._process = None
        return boot_seconds() - self._started_at

    def port_taken(self) -> str | None:
        """In words, that somebody else listens where it would, and which option says another port.

        Only of one that has no process.
        """
        place = self.spec.place
        try:
            if place is None or not place[1] or port_is_free(*place):
                return None
        except PortInUse as problem:
            return str(problem)
        taken = f"port {place[1]} on {place[0]} is in use by another process"
        if not self.spec.option:
            return f"{taken} (start `lakequeue up` again: it takes a free one)"
        return f"{taken} (choose another {self.spec.option}; 0 takes a free one)"

    def full_disk(self) -> str | None:
        """Which disk that it needs is full, in words."""
        return full_disk(self.spec.writes_to)

    def terminate(self) -> None:
        """Ask it to end."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to it and all that it started."""
        self._signal_group(signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        """A signal to the process alone."""
        os.kill(self.pid, number)

    def log_tail(self) -> str:
        """The end of its log, for a message."""
        try:
            with self.log_path.open("rb") as log:
                log.seek(max(0, self.log_path.stat().st_size - _LOG_TAIL_BYTES))
                return log.read().decode(errors="replace").strip()
        except OSError:
            return ""

    def _signal_group(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            # It has ended, and left nobody.
            return
