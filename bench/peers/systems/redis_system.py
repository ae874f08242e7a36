"""Redis Streams, from Debian's package."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import ClassVar

from bench.peers.clients.load import PARTITIONS
from bench.peers.debian import libraries, program
from bench.peers.processes import Server
from bench.peers.systems.system import Speaks, System
from lakequeue_cli.supervisor.preflight import free_port


def _program() -> Path:
    return program("redis-server", "usr/bin/redis-server", "usr/local/bin/redis-server")


class Redis(System):
    """One server with an append-only file."""

    name: ClassVar = "redis"
    title: ClassVar = "Redis Streams"
    promise: ClassVar = "fsynced before the answer (`appendfsync always`)"
    settings: ClassVar = (
        "one server; `appendonly yes`, `appendfsync always`, `save ''`; 8 streams, one group; XADD "
        "in pipelines of at most 500, XREADGROUP, XACK; nothing is trimmed; redis-py"
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._port = free_port()
        self._server: Server | None = None

    def start(self) -> None:
        """Start the server."""
        path = _program()
        command = [str(path), "--bind", "127.0.0.1", "--port", str(self._port)]
        command += ["--dir", str(self.folder), "--appendonly", "yes", "--appendfsync", "always"]
        command += ["--save", "", "--daemonize", "no"]
        self._server = Server(command, self.folder / "redis.log", libraries(path))
        self._server.wait_for(self._server.says("Ready to accept connections"))

    def stop(self) -> None:
        """End it."""
        if self._server is not None:
            self._server.stop()

    def pids(self) -> list[int]:
        """The server's."""
        return [self._server.process.pid] if self._server is not None else []

    def _speaks(self, topic: str, count: int) -> Speaks:
        streams = [f"{topic}-{number}" for number in range(count)]
        return Speaks("redis", {"port": self._port, "streams": streams})

    def sender(self, topic: str = "bench") -> Speaks:
        """XADD."""
        return self._speaks(topic, PARTITIONS if topic == "bench" else 1)

    def receivers(self) -> dict[str, Speaks]:
        """XREADGROUP and XACK."""
        return {"consumer": self._speaks("bench", PARTITIONS)}

    def worker(self, topic: str) -> Speaks | None:
        """A consumer of the group."""
        return self._speaks(topic, 1)

    @classmethod
    def version(cls) -> str:
        """As the program says."""
        path = _program()
        said = subprocess.run(
            [path, "--version"], capture_output=True, text=True, check=True, env=libraries(path)
        )
        return said.stdout.split("v=")[1].split()[0]
