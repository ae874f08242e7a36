"""Three real ZooKeeper servers that are one ensemble, from the jars that PySpark ships."""

from __future__ import annotations

import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from coordination.embedded import HOST, Place, answers, server_command
from tests.support.services.zookeeper import wait_for


class Ensemble:
    """A context manager: started and serving inside, killed at its end."""

    def __init__(self, folder: Path, servers: int = 3) -> None:
        self._folder = folder
        ports = free_ports(3 * servers)
        self._clients, peers, elections = (ports[i * servers :][:servers] for i in range(3))
        self._servers = {
            n: f"{HOST}:{peer}:{election}"
            for n, (peer, election) in enumerate(zip(peers, elections, strict=True), start=1)
        }
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def hosts(self) -> str:
        """`host:port,…` of all servers."""
        return ",".join(f"{HOST}:{port}" for port in self._clients)

    def start(self, number: int) -> None:
        """Start server `number` (from 1); it serves when it has found the others."""
        folder = self._folder / str(number)
        place = Place(number, self._servers)
        command = server_command(folder, self._clients[number - 1], place)
        with (folder / "zookeeper.log").open("ab") as log:
            self._processes[number] = subprocess.Popen(command, stdout=log, stderr=log)

    def serves(self, number: int) -> bool:
        """Whether server `number` is part of a quorum."""
        return answers(self._clients[number - 1])

    def leader(self) -> int:
        """The number of the server that leads the others."""
        return next(n for n in self._processes if self._mode(n) == "leader")

    def kill(self, number: int) -> None:
        """SIGKILL."""
        process = self._processes.pop(number)
        process.kill()
        process.wait()

    def _mode(self, number: int) -> str:
        with socket.create_connection((HOST, self._clients[number - 1]), 5) as link:
            link.sendall(b"srvr")
            answer = link.makefile("r").read()
        return answer.partition("Mode: ")[2].split("\n", 1)[0]

    def __enter__(self) -> Self:
        for number in range(1, len(self._clients) + 1):
            self.start(number)
        wait_for(lambda: all(map(self.serves, self._processes)), "all servers serve")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number in list(self._processes):
            self.kill(number)


def free_ports(count: int) -> list[int]:
    """Held all at once, so that they differ."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((HOST, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
