"""RabbitMQ, one node, from Debian's package."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import ClassVar

from bench.peers.clients.load import PARTITIONS
from bench.peers.debian import libraries, program
from bench.peers.processes import Server
from bench.peers.systems.system import Speaks, System
from lakequeue_cli.supervisor.preflight import free_port

_SERVER = "usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server"
_EPMD = ("usr/bin/epmd", "usr/lib/erlang/erts-*/bin/epmd")


class RabbitMQ(System):
    """Quorum queues of one replica each."""

    name: ClassVar = "rabbitmq"
    title: ClassVar = "RabbitMQ, quorum queues"
    promise: ClassVar = "fsynced by a quorum (here: the one node) before the confirm"
    settings: ClassVar = (
        "one node, defaults; 8 quorum queues for 8 partitions, one for the workers; persistent "
        "messages, publisher confirms; manual acks, which have no answer; prefetch 2,000 (workers: "
        "10); py-amqp"
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._port = free_port()
        self._servers: list[Server] = []

    def start(self) -> None:
        """Start Erlang's port mapper and the broker."""
        script = program("rabbitmq-server", _SERVER)
        epmd = program("rabbitmq-server", *_EPMD)
        home = self.folder / "rabbitmq"
        home.mkdir()
        # The script starts `erl`, which stands beside `epmd` or in the folder that has both.
        erlang = epmd.parent if (epmd.parent / "erl").exists() else epmd.parents[2] / "bin"
        mapper_port = free_port()
        environ = {
            **libraries(script),
            "PATH": f"{erlang}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(home),
            "ERL_EPMD_PORT": str(mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_HOME": str(script.parents[1]),
            "RABBITMQ_NODENAME": "bench@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self._port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(home / "data"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": str(home / "none"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }
        mapper = Server([str(epmd), "-port", str(mapper_port)], self.folder / "epmd.log", environ)
        self._servers.append(mapper)
        shell = shutil.which("sh") or "/bin/sh"
        broker = Server([shell, str(script)], self.folder / "rabbitmq.log", environ)
        self._servers.append(broker)
        broker.wait_for(broker.says("Server startup complete"))

    def stop(self) -> None:
        """End both."""
        for server in reversed(self._servers):
            server.stop()

    def pids(self) -> list[int]:
        """The broker's, and the port mapper's."""
        return [server.process.pid for server in self._servers]

    def _speaks(self, queues: list[str], prefetch: int) -> Speaks:
        return Speaks("rabbitmq", {"port": self._port, "queues": queues, "prefetch": prefetch})

    def sender(self, topic: str = "bench") -> Speaks:
        """A publisher."""
        count = PARTITIONS if topic == "bench" else 1
        return self._speaks([f"{topic}-{number}" for number in range(count)], 0)

    def receivers(self) -> dict[str, Speaks]:
        """A consumer of all eight."""
        return {"consumer": self._speaks([f"bench-{n}" for n in range(PARTITIONS)], 2_000)}

    def worker(self, topic: str) -> Speaks | None:
        """A consumer with a prefetch of ten."""
        return self._speaks([f"{topic}-0"], 10)

    @classmethod
    def version(cls) -> str:
        """Of the unpacked or installed server."""
        return program("rabbitmq-server", _SERVER).parents[1].name.removeprefix("rabbitmq_server-")
