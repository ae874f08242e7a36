"""The embedded ZooKeeper: a real server, started from the jars that PySpark already ships.

    python -m coordination.embedded --data-dir DIR --port 2181

replaces itself with the Java process, so its pid is the server's. `EmbeddedZooKeeper` runs that
as a child, for the supervisor and the tests. The server listens on the loopback address only,
unless `--host` names another.

    python -m coordination.embedded … --number 2 --servers 1=a:2888:3888,2=b:2888:3888,3=c:2888:3888

is one server of an ensemble: each is given the same list, and its own number in it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lakequeue.clock import boot_seconds
from lakequeue.errors import (
    CoordinationUnavailable,
    InvalidSetting,
    LakequeueError,
    MissingDependency,
)
from lakequeue.processes import programs
from lakequeue.processes.folders import make_private
from lakequeue.processes.java import QUICK_COMPILER, java_command
from lakequeue.processes.java_logs import log4j_settings
from lakequeue.processes.parent import die_with_parent
from lakequeue.settings import Settings

HOST = "127.0.0.1"
TICK_MS = 100
"""Sessions expire on a tick, and a follower tells the leader twice a tick who was heard: a death is
noticed up to one and a half of them after the session timeout."""
MIN_SESSION_MS = 1_000
MAX_SESSION_MS = 60_000
"""Between these a session timeout is granted as it is asked for."""
_CATCH_UP_S = 10.0
"""How long a server that has been away may take to fetch what it has missed."""
_ANSWER_S = 5.0
"""How long a server may take to answer the one that leads."""
_ALONE = "org.apache.zookeeper.server.ZooKeeperServerMain"
_OF_SEVERAL = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
EXIT_UNUSABLE = 3
"""Java, the jars or the settings are not usable: starting again will not help."""
_NEEDED = ("zookeeper", "slf4j-api", "log4j-", "netty-", "metrics-core", "snappy-java")
"""Jars on the class path: of PySpark's 300 the few that the server loads, for a quick start."""


def find_jars() -> list[Path]:
    """The jars of the server, inside PySpark. Raises `MissingDependency`.

    PySpark is found, not imported: importing it takes a second.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise MissingDependency(
            "the embedded ZooKeeper needs PySpark's jars, and PySpark is not installed",
            hint="pip install 'lakequeue[spark]', or use your own ensemble with --zookeeper",
        )
    folder = Path(next(iter(spec.submodule_search_locations))) / "jars"
    jars = sorted(jar for jar in folder.glob("*.jar") if jar.name.startswith(_NEEDED))
    if not any(jar.name.startswith("zookeeper-") for jar in jars):
        raise MissingDependency(
            f"no zookeeper-*.jar in {folder}",
            hint="reinstall pyspark, or use your own ensemble with --zookeeper",
        )
    return jars


@dataclass(frozen=True, slots=True)
class Place:
    """Which server of which ensemble one is."""

    number: int
    """From 1 to 255."""
    servers: Mapping[int, str]
    """Number → host:port:port of every server: for its peers, and for elections."""


@dataclass(frozen=True, slots=True)
class ServerTls:
    """What a server shows, and whom it lets in."""

    cert: Path
    """Certificate and private key (PKCS #8), PEM."""
    client_ca: Path | None = None
    """Whoever shows no certificate of these gets no connection."""


def tls_of(cert: Path | None, client_ca: Path | None) -> ServerTls | None:
    """What `server.cert` and `server.client_ca` say. Raises `InvalidSetting`."""
    if cert is None:
        if client_ca is not None:
            raise InvalidSetting("server.client_ca without server.cert", hint="set both")
        return None
    for path in (cert, *([] if client_ca is None else [client_ca])):
        if not path.is_file():
            raise InvalidSetting(f"the file {path} does not exist", hint="see server.cert")
    return ServerTls(cert.absolute(), None if client_ca is None else client_ca.absolute())


def place_of(number: int | None, servers: str | None) -> Place | None:
    """What `--number` and `--servers` say; None without them. Pure. Raises `InvalidSetting`."""
    if number is None and servers is None:
        return None
    named = dict(part.strip().partition("=")[::2] for part in (servers or "").split(","))
    well = all(n.isdigit() and where.count(":") >= 2 for n, where in named.items())
    if number is None or not well or str(number) not in named:
        raise InvalidSetting(
            f"server {number} of {servers!r} is not a server of an ensemble",
            hint="--number 2 --servers 1=a:2888:3888,2=b:2888:3888,3=c:2888:3888",
        )
    return Place(number, {int(n): where for n, where in named.items()})


def server_command(
    data_dir: Path,
    port: int,
    place: Place | None = None,
    host: str = HOST,
    tls: ServerTls | None = None,
) -> list[str]:
    """Write the server's configuration into `data_dir`, and return the command that starts it.

    `place`: it is one of an ensemble, and serves once it has found a majority of the others.
    """
    make_private(data_dir)
    # Its log has what stands in the nodes, secrets of webhooks as well.
    data_dir.chmod(0o700)
    config = data_dir / "zoo.cfg"
    config.write_text(
        f"dataDir={data_dir / 'data'}\n{_port_config(host, port, tls)}"
        f"tickTime={TICK_MS}\n"
        f"minSessionTimeout={MIN_SESSION_MS}\n"
        f"maxSessionTimeout={MAX_SESSION_MS}\n"
        "maxClientCnxns=0\n"
        "admin.enableServer=false\n"
        "4lw.commands.whitelist=srvr\n"
        "autopurge.snapRetainCount=3\n"
        "autopurge.purgeInterval=1\n" + ("" if place is None else _ensemble_config(place, tls))
    )
    log4j = data_dir / "log4j2.properties"
    log4j.write_text(log4j_settings("error"))
    if place is not None:
        (data_dir / "data").mkdir(exist_ok=True)
        (data_dir / "data" / "myid").write_text(str(place.number))
    return [
        java_command(),
        "-Xmx128m",
        "-XX:+UseSerialGC",
        *QUICK_COMPILER.split(),
        # The transaction log grows in steps of 64 MiB by default: too much for what stands in it.
        "-Dzookeeper.preAllocSize=4096",
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={log4j.absolute().as_uri()}",
        # It would speak to a log4j of another age, which writes a line of its own about that.
        "-Dzookeeper.jmx.log4j.disable=true",
        "-cp",
        os.pathsep.join(map(str, find_jars())),
        _ALONE if place is None else _OF_SEVERAL,
        str(config),
    ]


def _port_config(host: str, port: int, tls: ServerTls | None) -> str:
    """With TLS there is no other port: whoever speaks in the open gets no answer."""
    if tls is None:
        return f"clientPortAddress={host}\nclientPort={port}\n"
    return (
        f"secureClientPortAddress={host}\n"
        f"secureClientPort={port}\n"
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
        "authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider\n"
        f"ssl.clientAuth={'none' if tls.client_ca is None else 'need'}\n"
        + _stores_config("ssl", tls)
    )


def _stores_config(prefix: str, tls: ServerTls) -> str:
    """Without authorities of its own a server trusts those that signed its certificate."""
    return (
        f"{prefix}.protocol=TLSv1.3\n"
        f"{prefix}.enabledProtocols=TLSv1.3,TLSv1.2\n"
        f"{prefix}.keyStore.location={tls.cert}\n"
        f"{prefix}.keyStore.type=PEM\n"
        f"{prefix}.trustStore.location={tls.client_ca or tls.cert}\n"
        f"{prefix}.trustStore.type=PEM\n"
    )


def _ensemble_config(place: Place, tls: ServerTls | None) -> str:
    members = "".join(f"server.{n}={where}\n" for n, where in sorted(place.servers.items()))
    times = f"initLimit={_ticks(_CATCH_UP_S)}\nsyncLimit={_ticks(_ANSWER_S)}\n{members}"
    return times if tls is None else f"{times}sslQuorum=true\n{_stores_config('ssl.quorum', tls)}"


def _ticks(seconds: float) -> int:
    return round(seconds * 1000 / TICK_MS)


def free_port() -> int:
    """A TCP port that is free on the loopback address now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def answers(port: int, timeout_s: float = 1.0) -> bool:
    """Whether the server on `port` serves requests (the four-letter word `srvr`)."""
    try:
        with socket.create_connection((HOST, port), timeout_s) as link:
            link.settimeout(timeout_s)
            link.sendall(b"srvr")
            answer = link.recv(4096)
    except OSError:
        return False
    return answer.startswith(b"Zookeeper version")


class EmbeddedZooKeeper:
    """A server as a child process: `start`, `stop`, `kill`; starting again keeps data and port.

    The child is killed by the kernel when the thread that called `start` ends: call it from a
    thread that lives as long as the server should.
    """

    def __init__(self, data_dir: Path, port: int = 0) -> None:
        self.data_dir = data_dir
        self.port = port or free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def hosts(self) -> str:
        """`host:port`, as `Session` takes it."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        if self._process is None:
            raise CoordinationUnavailable("the embedded ZooKeeper is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the child lives."""
        return self._process is not None and self._process.poll() is None

    def start(self, timeout_s: float = 60.0) -> None:
        """Start the server and return when it serves. Raises `CoordinationUnavailable`."""
        if self.running:
            return
        make_private(self.data_dir)
        log = self.data_dir / "zookeeper.log"
        command = [*programs.command("coordination.embedded")]
        command += ["--data-dir", str(self.data_dir), "--port", str(self.port)]
        command += ["--parent", str(os.getpid())]
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=programs.environment(),
                # A Ctrl-C at the terminal is for the supervisor, which stops this one last.
                start_new_session=True,
            )
        self._wait_serving(self._process, timeout_s, log)

    def _wait_serving(self, process: subprocess.Popen[bytes], timeout_s: float, log: Path) -> None:
        deadline = boot_seconds() + timeout_s
        while not answers(self.port):
            try:
                code: int | None = process.wait(timeout=0.02)
            except subprocess.TimeoutExpired:
                code = None
            if code is None and boot_seconds() < deadline:
                continue
            self.kill()
            tail = log.read_text(errors="replace")[-2_000:].strip()
            what = f"ended with {code}" if code is not None else f"not ready in {timeout_s:g} s"
            raise CoordinationUnavailable(
                f"the embedded ZooKeeper on port {self.port} {what}: {tail}",
                hint=f"see {log}; is the port in use?",
            )

    def stop(self, timeout_s: float = 10.0) -> None:
        """Ask the server to end, and wait; kill it when it does not."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone: what a power cut leaves is on disk."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process = None


def main(argv: Sequence[str] | None = None) -> None:
    """Become the server. What is not given is left to the settings `server.*`."""
    parser = argparse.ArgumentParser(prog="python -m coordination.embedded", description=__doc__)
    parser.add_argument("--data-dir", type=Path, help="where its state is kept")
    parser.add_argument("--host", help="address to listen on")
    parser.add_argument("--port", type=int, help="port to listen on")
    parser.add_argument("--number", type=int, help="which server of the ensemble it is")
    parser.add_argument("--servers", help="the ensemble: 1=host:2888:3888,2=…")
    parser.add_argument("--die-with-parent", action="store_true", help="end when the parent does")
    parser.add_argument("--parent", type=int, help="pid of that parent (implies the above)")
    args = parser.parse_args(argv)
    if args.die_with_parent or args.parent is not None:
        die_with_parent(args.parent)
    names = ("data_dir", "host", "port", "number", "servers")
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    try:
        server = Settings(**({"server": given} if given else {})).server
        place = place_of(server.number, server.servers)
        tls = tls_of(server.cert, server.client_ca)
        command = server_command(server.data_dir, server.port, place, server.host, tls)
    except LakequeueError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(EXIT_UNUSABLE)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
