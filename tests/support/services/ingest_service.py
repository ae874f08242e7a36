"""An ingest node as users run it: a process, spoken to over HTTP; and a look into its inbox."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
import pyarrow as pa

from queue_tables.delta.snapshot import load_snapshot
from queue_tables.files.parquet import read_data_file
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import shard_path
from tests.support.forking.forked import Forked

START_S = 150.0
"""On a machine that is busy with many such tests the imports alone take half a minute."""
REPOSITORY = Path(__file__).parents[3]


class IngestService:
    """`python -m ingest` on a free port; `with` stops it."""

    def __init__(self, root: Path, *args: str, node: str = "n1", **environment: str) -> None:
        self.root = root
        command = [sys.executable, "-m", "ingest", "--root", str(root), "--port", "0"]
        # Its output goes to files: a pipe that nobody reads would block it some day. Not beside the
        # root, which may be a disk that a test fills or makes read-only.
        self._files = tempfile.TemporaryDirectory()
        self._out = Path(self._files.name) / "out"
        self._err = self._out.with_suffix(".err")
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = Forked(
                [*command, "--node", node, "--die-with-parent", str(os.getpid()), *args],
                stdout=out,
                stderr=err,
                env=os.environ | {"LAKEQUEUE_LOG_LEVEL": "info"} | environment,
                cwd=REPOSITORY,
            )
        self.ready = self._first_event()
        self.http = httpx2.Client(base_url=self.ready.get("url", "http://unset"), timeout=60.0)

    def _first_event(self) -> dict[str, Any]:
        """The first line on stdout: ready, or failed."""
        deadline = threading.Event()
        for _ in range(int(START_S / 0.02)):
            text = self._out.read_text()
            if "\n" in text:
                event: dict[str, Any] = json.loads(text.partition("\n")[0])
                return event
            if self.process.poll() is not None and not self._out.read_text():
                raise AssertionError(f"ended with {self.process.returncode}: {self.stderr()}")
            deadline.wait(0.02)
        raise AssertionError(f"not ready in {START_S} s: {self.stderr()}")

    @property
    def worker(self) -> int:
        """The process that holds the shard."""
        return int(self.ready["pid"])

    def stderr(self) -> str:
        """What it has logged so far."""
        return self._err.read_text()

    def kill(self) -> None:
        """SIGKILL, as a power cut for this process; its worker goes with it."""
        self.process.kill()
        self.process.wait(30)

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.http.close()
        try:
            self.stop()
        finally:
            if self.process.poll() is None:
                self.kill()
            self._files.cleanup()

    # -- calls ----------------------------------------------------------------------------------

    def create(self, topic: str = "orders", **config: Any) -> dict[str, Any]:
        """Create a topic."""
        answer = self.http.put(f"/v1/topics/{topic}", json=config)
        assert answer.status_code in {200, 201}, answer.text
        described: dict[str, Any] = answer.json()
        return described

    def send(
        self, records: list[dict[str, Any]], topic: str = "orders", query: str = "", **envelope: Any
    ) -> httpx2.Response:
        """Send a JSON produce request."""
        return self.http.post(
            f"/v1/topics/{topic}/records{query}", json={"records": records, **envelope}
        )


def inbox_rows(root: Path) -> pa.Table:
    """All rows of all inbox shards, each shard in the order of its commits."""
    opened = QueueRoot.open(str(root), create=False)
    tables: list[pa.Table] = []
    for shard in opened.shards("inbox"):
        path = shard_path("inbox", shard)
        tables += [
            read_data_file(opened.store, path, add)
            for add in load_snapshot(opened.store, path).files
        ]
    return pa.concat_tables(tables) if tables else pa.table({"value": pa.array([], pa.binary())})
