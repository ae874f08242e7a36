"""Processes of a run: servers, and clients that take orders as lines of JSON."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from lakequeue.processes import parent

REPOSITORY = Path(__file__).parents[2]
PEERS_PYTHON = REPOSITORY / ".venv/peers/bin/python"
_BOUND = (sys.executable, "-I", parent.__file__)


class Failed(RuntimeError):
    """A process ended, or did not answer; with the end of its output."""


def bound(command: Sequence[str], user: str | None = None) -> list[str]:
    """The command, ended by the kernel when this process ends; as somebody else, if we are root."""
    if user is not None:
        group = str(pwd.getpwnam(user).pw_gid)
        who = [f"--reuid={user}", f"--regid={group}", "--clear-groups"]
        return ["setpriv", "--pdeathsig", "KILL", *who, *command]
    return [*_BOUND, str(os.getpid()), *command]


def end(process: subprocess.Popen[Any], wait_s: float = 20.0) -> None:
    """Ask a process and all below it to end; kill what does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(process.pid)
        below = root.children(recursive=True)
        process.terminate()
        _, alive = psutil.wait_procs([root], wait_s)
        for each in (*alive, *below):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
    process.wait()


class Server:
    """A process that serves; its output is in a file."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        environ: Mapping[str, str] | None = None,
        user: str | None = None,
        cwd: Path = REPOSITORY,
    ) -> None:
        self._log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                bound(command, user),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=os.environ | dict(environ or {}),
                cwd=cwd if user is None else "/",
            )

    def wait_for(self, ready: Callable[[], bool], within_s: float = 60.0) -> None:
        """Return when `ready()`; raises `Failed` if the process ends, or that takes too long."""
        until = time.monotonic() + within_s
        while not ready():
            if self.process.poll() is not None or time.monotonic() > until:
                raise Failed(f"{self.process.args!r}: {self.output()[-2_000:]}")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)

    def says(self, text: str) -> Callable[[], bool]:
        """Whether its output has this text."""
        return lambda: text in self.output()

    def output(self) -> str:
        """All that it has written so far."""
        return self._log.read_text(errors="replace")

    def stop(self) -> None:
        """End it and all below it."""
        end(self.process)


class Client:
    """A process of `bench.peers.clients.load`: an order a line, and an answer a line."""

    def __init__(self, python: Path, role: str, adapter: str, at: Mapping[str, Any]) -> None:
        self._what = f"{role} {adapter}"
        self._process = subprocess.Popen(
            bound([str(python), "-m", "bench.peers.clients.load", role, adapter, json.dumps(at)]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def order(self, **order: Any) -> None:
        """Send an order."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def answer(self, within_s: float) -> dict[str, Any]:
        """The next answer."""
        try:
            line = self._lines.get(timeout=within_s)
        except queue.Empty:
            raise Failed(f"{self._what} did not answer within {within_s:.0f} s") from None
        if not line:
            raise Failed(f"{self._what} has ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        """Let it close its connections, then end it."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(15)
        end(self._process)
