"""A real ingest node, as a process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import pytest

from queue_tables.delta.table import TableLog
from queue_tables.files.parquet import read_data_file
from queue_tables.root import QueueRoot
from tests.support.forking.forked import Forked
from tests.support.services.consumer_node import node, own_queue, queue, start_node
from tests.support.services.small_cluster import cluster, own_cluster, shared_cluster
from tests.support.services.zookeeper import wait_for

__all__ = [
    "cluster",
    "node",
    "own_cluster",
    "own_queue",
    "queue",
    "shared_cluster",
    "start_node",
]

HERE = Path(__file__).parents[3]


@dataclass
class IngestProcess:
    """`python -m ingest` on a root and a port of its own."""

    root: Path
    port: int = 0
    options: tuple[str, ...] = ()
    process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start and wait until it says that it is ready; the port stays for later starts."""
        log = self.root.with_suffix(".ingest.log").open("a")
        with log:
            self.process = Forked(
                [
                    *(sys.executable, "-m", "ingest", "--root", str(self.root)),
                    *("--node", f"ingest-{self.root.name}", "--port", str(self.port)),
                    *("--die-with-parent", *self.options),
                ],
                cwd=HERE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        for line in cast(IO[str], self.process.stdout):
            event: dict[str, Any] = json.loads(line)
            if event["event"] == "ready":
                self.port = int(event["url"].rsplit(":", 1)[1])
                return
            raise RuntimeError(f"ingest did not start: {event}")
        raise RuntimeError(f"ingest ended with {self.process.wait()}")

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def end(self, *, kill: bool = False) -> None:
        """SIGKILL, or SIGTERM, and wait."""
        (self.process.kill if kill else self.process.terminate)()
        self.process.wait(timeout=30)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def inbox(self) -> list[dict[str, Any]]:
        """Every record in the inbox shards, in (stamp, row) order."""
        root = QueueRoot.open(str(self.root), create=False)
        rows: list[dict[str, Any]] = []
        for shard in root.shards("inbox"):
            path = f"inbox/{shard}"
            for add in TableLog(root.store, path).open().files:
                rows += read_data_file(root.store, path, add).to_pylist()
        return sorted(rows, key=lambda r: (r["stamp"], r["row"]))

    def wait_for_inbox(self, rows: int) -> None:
        """Until so many records are there."""
        wait_for(lambda: len(self.inbox()) >= rows)


@pytest.fixture
def start_ingest(tmp_path: Path) -> Iterator[Callable[..., IngestProcess]]:
    """Factory of ingest nodes on one root."""
    running: list[IngestProcess] = []

    def start(**options: Any) -> IngestProcess:
        process = IngestProcess(tmp_path / "queue", **options)
        running.append(process)
        return process

    yield start
    for process in running:
        process.end(kill=True)
