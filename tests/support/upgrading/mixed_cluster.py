"""A queue whose processes are of this release or of the one before, and can be exchanged.

Two nodes of each service and two drivers (without Spark), one ZooKeeper. A process is exchanged as
an operator would: asked to end, waited for, and started again under its name and port.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from coordination.embedded import EmbeddedZooKeeper
from history_checker.load import wait_until
from lakequeue.processes.programs import command
from lakequeue_cli.supervisor.preflight import free_port
from tests.support.upgrading.previous import PROJECT, PreviousRelease

Release = Literal["old", "new"]
HOST = "127.0.0.1"
_ROLES = {"ingest": "ingest", "consumer": "consumer_service", "driver": "jobs.driver"}
NAMES = tuple(f"{role}-{number}" for role in ("driver", "ingest", "consumer") for number in (1, 2))
READY_S = 90.0
END_S = 60.0


@dataclass
class _Process:
    port: int
    release: Release
    popen: subprocess.Popen[bytes]
    ended: list[int] = field(default_factory=list)


class MixedCluster:
    """Everything runs the release before when it is entered."""

    def __init__(self, folder: Path, old: PreviousRelease) -> None:
        self._folder = folder
        self._old = old
        self.root = str(folder / "root")
        self._zookeeper = EmbeddedZooKeeper(folder / "zookeeper")
        self._ports = {name: free_port(HOST) for name in NAMES}
        self._running: dict[str, _Process] = {}

    @property
    def hosts(self) -> str:
        """Of ZooKeeper."""
        return self._zookeeper.hosts

    @property
    def ingest_urls(self) -> list[str]:
        """Where to send to."""
        return [self._url(name) for name in NAMES if name.startswith("ingest-")]

    @property
    def consumer_urls(self) -> list[str]:
        """Where to read from."""
        return [self._url(name) for name in NAMES if name.startswith("consumer-")]

    def releases(self) -> dict[str, Release]:
        """Which process is of which."""
        return {name: process.release for name, process in self._running.items()}

    def exchange(self, name: str, release: Release) -> None:
        """End a process, and start it again with that release."""
        self._end(name)
        self._start(name, release)
        self._await(name)

    def __enter__(self) -> Self:
        self._zookeeper.start()
        # The first process makes the root: the root is of the release before.
        for name in sorted(NAMES, key=lambda name: not name.startswith("ingest-1")):
            self._start(name, "old")
            self._await(name)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            for name in NAMES:
                if name in self._running:
                    self._end(name)
        finally:
            for process in self._running.values():
                process.popen.kill()
                process.popen.wait(END_S)
            self._zookeeper.stop()

    def _start(self, name: str, release: Release) -> None:
        role = name.partition("-")[0]
        old = [self._old.python, "-m", _ROLES[role]]
        new = [*command(_ROLES[role])]
        if role == "driver":
            old = [self._old.python, str(self._old.light_driver)]
            new = [sys.executable, "-m", "tests.support.runs.light_driver"]
        port = self._ports[name]
        arguments = (
            *("--root", self.root, "--zookeeper", self.hosts, "--node", name),
            *("--host", HOST, "--port", str(port), "--log-level", "info", "--die-with-parent"),
        )
        environment = self._old.environment if release == "old" else dict(os.environ)
        environment |= {
            "LAKEQUEUE_WORK_DIR": str(self._folder / "work" / name),
            "LAKEQUEUE_COORDINATION__SESSION_TIMEOUT_S": "4",
        }
        (self._folder / "logs").mkdir(exist_ok=True)
        with (self._folder / "logs" / f"{name}.log").open("ab") as log:
            popen = subprocess.Popen(
                [*(old if release == "old" else new), *arguments],
                cwd=self._old.folder if release == "old" else PROJECT,
                env=environment,
                stdout=log,
                stderr=log,
            )
        self._running[name] = _Process(port, release, popen)

    def _await(self, name: str) -> None:
        process = self._running[name]

        def ready() -> bool:
            assert process.popen.poll() is None, f"{name} has ended: {self.log(name)[-2000:]}"
            path = "healthz" if name.startswith("driver-") else "readyz"
            with (
                suppress(OSError, urllib.error.URLError),
                urllib.request.urlopen(f"{self._url(name)}/{path}", timeout=5) as answer,  # noqa: S310 - our own
            ):
                return bool(answer.status == 200)
            return False

        wait_until(f"{name} of {process.release} is ready", ready, READY_S)

    def _end(self, name: str) -> None:
        process = self._running.pop(name)
        process.popen.send_signal(signal.SIGTERM)
        try:
            process.popen.wait(END_S)
        except subprocess.TimeoutExpired:
            process.popen.kill()
            process.popen.wait(END_S)

    def log(self, name: str) -> str:
        """What a process has said, under all releases."""
        return (self._folder / "logs" / f"{name}.log").read_text(errors="replace")

    def _url(self, name: str) -> str:
        return f"http://{HOST}:{self._ports[name]}"
