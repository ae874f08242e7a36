"""PostgreSQL as a queue, from Debian's package."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path
from typing import ClassVar

from bench.peers.debian import libraries, program
from bench.peers.processes import Failed, Server
from bench.peers.systems.system import Speaks, System
from lakequeue_cli.supervisor.preflight import free_port
from tools.debian import NotAvailable

_PACKAGE = "postgresql"
_PLACE = "usr/lib/postgresql/*/bin/postgres"


class Postgres(System):
    """One server and one table."""

    name: ClassVar = "postgres"
    title: ClassVar = "PostgreSQL, `SKIP LOCKED`"
    promise: ClassVar = "the write-ahead log is fsynced before the commit is answered"
    settings: ClassVar = (
        "one server; `fsync=on`, `synchronous_commit=on` (defaults), `shared_buffers=1GB`, "
        "`max_wal_size=4GB`, `jit=off`, `max_connections=200`; one table for "
        "all partitions with the statements of pgmq; inserts of all that waits, woken by NOTIFY; "
        "psycopg"
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._port = free_port()
        self._server: Server | None = None

    def start(self) -> None:
        """Make a database and start the server; not as root, which PostgreSQL refuses."""
        path = program(_PACKAGE, _PLACE)
        user = _user()
        data = self.folder / "postgres"
        data.mkdir(mode=0o700)
        if user is not None:
            os.chown(data, pwd.getpwnam(user).pw_uid, -1)
            for each in (self.folder, *self.folder.parents):
                if each.stat().st_uid == 0 and not each.stat().st_mode & 0o001:
                    each.chmod(each.stat().st_mode | 0o011)
        environ = os.environ | libraries(path)
        made = subprocess.run(
            [path.with_name("initdb"), "-D", data, "-U", "bench", "--auth=trust", "-E", "UTF8"],
            capture_output=True,
            text=True,
            check=False,
            user=user,
            env=environ,
            cwd="/",
        )
        if made.returncode:
            raise Failed(f"initdb: {made.stderr[-500:]}")
        command = [str(path), "-D", str(data), "-p", str(self._port)]
        for setting in (
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "shared_buffers=1GB",
            "max_wal_size=4GB",
            "max_connections=200",
            "jit=off",
        ):
            command += ["-c", setting]
        log = self.folder / "postgres.log"
        self._server = Server(command, log, libraries(path), user=user)
        self._server.wait_for(self._server.says("ready to accept connections"))

    def stop(self) -> None:
        """End it."""
        if self._server is not None:
            self._server.stop()

    def pids(self) -> list[int]:
        """The server's."""
        return [self._server.process.pid] if self._server is not None else []

    def _speaks(self, topic: str, most: int) -> Speaks:
        return Speaks("postgres", {"port": self._port, "table": f"q_{topic}", "most": most})

    def sender(self, topic: str = "bench") -> Speaks:
        """INSERT."""
        return self._speaks(topic, 0)

    def receivers(self) -> dict[str, Speaks]:
        """Read and delete."""
        return {"consumer": self._speaks("bench", 1_000)}

    def worker(self, topic: str) -> Speaks | None:
        """The same, by tens."""
        return self._speaks(topic, 10)

    @classmethod
    def version(cls) -> str:
        """As the program says."""
        path = program(_PACKAGE, _PLACE)
        said = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | libraries(path),
        )
        return said.stdout.split()[2]


def _user() -> str | None:
    """Somebody else, if we are root."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise NotAvailable("PostgreSQL does not run as root, and there is no user to run it as")
