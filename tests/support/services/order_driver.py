"""The real driver of the jobs as a child process: Spark, ZooKeeper, tables."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from queue_tables.delta.snapshot import load_snapshot
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import LOG
from tests.support.services.zookeeper import wait_for

PROJECT = Path(__file__).resolve().parents[3]
START_S = 240.0
"""A Spark driver on a busy machine."""


class Driver:
    """One `python -m jobs.driver` (or another job module), with its output in `work`."""

    def __init__(self, root: QueueRoot, hosts: str, node: str, work: Path, module: str) -> None:
        work.mkdir(parents=True, exist_ok=True)
        self.node, self._root, self._hosts, self._work = node, root, hosts, work
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *args: str, patches: Mapping[str, str] | None = None) -> Driver:
        """Start it; `args` are added to its command line, `patches` to its environment."""
        command = [sys.executable, "-m", self._module, "--root", self._root.uri]
        command += ["--zookeeper", self._hosts, "--node", self.node]
        command += ["--work-dir", str(self._work), "--log-level", "debug", *args]
        env = os.environ | {
            "PYTHONPATH": str(PROJECT),
            "LAKEQUEUE_COORDINATION__SESSION_TIMEOUT_S": "4",
            **(patches or {}),
        }
        with (self._work / f"{self.node}.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self._work, env=env, stdout=log, stderr=log, start_new_session=True
            )
        return self

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The child."""
        assert self._process is not None
        return self._process

    def state(self) -> dict[str, Any]:
        """What its state file says; {} if that is of an earlier process, or not there."""
        path = self._work / f"driver-{self.node}.json"
        said: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return said if said.get("pid") == self.process.pid else {}

    def wait_state(self, job: str, state: str) -> Driver:
        """Wait until it says that `job` is in `state`."""

        def there() -> bool:
            assert self.process.poll() is None, self.output()
            found = self.state().get(job) or {}
            return bool(found.get("state") == state)

        wait_for(there, f"{job} {state} in {self.node}", START_S)
        return self

    def wait_end(self, timeout_s: float = START_S) -> int:
        """Wait for its end; the exit code, negative for a signal."""
        return self.process.wait(timeout_s)

    def output(self) -> str:
        """The end of what it printed."""
        return (self._work / f"{self.node}.log").read_text(errors="replace")[-4_000:]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the driver's Python process alone."""
        self.process.send_signal(number)

    def close(self) -> None:
        """End it, whatever it is doing."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def wait_ordered(root: QueueRoot, marks: dict[str, int]) -> None:
    """Wait until `log` has passed the last stamp of each shard."""

    def passed() -> bool:
        txns = load_snapshot(root.store, LOG.name, keep_files=False).txns
        return all(txns.get(f"inbox/{shard}", 0) >= stamp for shard, stamp in marks.items())

    wait_for(passed, f"ordered up to {marks}", START_S)
