"""Workers of Celery as processes, with the tasks of the example."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Self

from tests.support.sqs.installed import PROJECT, environment, program

_APP = "tests.support.sqs.clients.celery_tasks"


class Shop:
    """The example at one gateway, with books and workers of its own."""

    def __init__(self, url: str, queue: str, folder: Path, visibility_s: int) -> None:
        self._folder = folder
        self._books = folder / "books.jsonl"
        self._environment = environment(url) | {
            "SHOP_BROKER": f"sqs://any:any@{url.removeprefix('http://')}//",
            "SHOP_BOOKS": str(self._books),
            "SHOP_VISIBILITY_S": str(visibility_s),
            "SHOP_QUEUE": queue,
            "PYTHONUNBUFFERED": "1",
        }
        self._workers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            self.kill(worker)

    def worker(self, processes: int = 2) -> subprocess.Popen[bytes]:
        """Start one, with so many processes; it is a process group of its own."""
        command = [program("celery"), "-A", _APP, "worker", "--concurrency", str(processes)]
        command += ["--loglevel", "info"]
        log = (self._folder / f"worker-{len(self._workers)}.log").open("wb")
        with log:
            made = subprocess.Popen(
                command,
                env=self._environment,
                cwd=PROJECT,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._workers.append(made)
        return made

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        """SIGKILL to it and to its processes, as if the machine had lost its power."""
        if worker.poll() is None:
            os.killpg(worker.pid, signal.SIGKILL)
        worker.wait(30)

    def end(self, worker: subprocess.Popen[bytes]) -> None:
        """SIGTERM: it ends what it has begun, and then itself."""
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)

    def ask(self, code: str) -> None:
        """Run this in the program of a client: the tasks are `charge`, `remind` and `pack`."""
        names = "from examples.celery.tasks import *; import datetime"
        self._run("-c", f"{names}\nfrom {_APP} import pack\n{code}")

    def sell(self, orders: int) -> None:
        """The example's own program."""
        self._run("-m", "examples.celery.shop", str(orders))

    def _run(self, *arguments: str) -> None:
        subprocess.run(
            [program("python"), *arguments],
            env=self._environment,
            cwd=PROJECT,
            check=True,
            timeout=60,
        )

    def books(self, did: str) -> list[dict[str, Any]]:
        """What was done, in the order in which it was."""
        if not self._books.exists():
            return []
        lines = [json.loads(line) for line in self._books.read_text().splitlines()]
        return [line for line in lines if line["did"] == did]

    def log(self) -> str:
        """What workers said."""
        return "\n".join(path.read_text() for path in sorted(self._folder.glob("*.log")))
