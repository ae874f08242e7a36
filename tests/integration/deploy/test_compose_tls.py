"""The compose file's TLS to ZooKeeper: its certificates and its settings, on servers of our own."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import SecretStr

from coordination.embedded import Place, answers, server_command
from coordination.zookeeper.session import Session
from lakequeue import Admin, Consumer
from lakequeue.errors import CoordinationUnavailable
from lakequeue.settings import CoordinationSettings
from tests.support.access.locked import locks
from tests.support.data.log_builder import LogBuilder
from tests.support.services.ensemble import free_ports
from tests.support.services.zookeeper import FAST, wait_for

REPOSITORY = Path(__file__).parents[3]
DEPLOY = REPOSITORY / "deploy"
PLAIN: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yml").read_text())["services"]
SECURE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.tls.yml").read_text())["services"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `deploy/certificates` makes."""
    folder = tmp_path_factory.mktemp("tls")
    for _ in range(2):  # what is there stays
        subprocess.run([DEPLOY / "certificates", folder], check=True, cwd=REPOSITORY)
    return folder


@dataclass(frozen=True)
class Server:
    """One server of the file, at ports of this test."""

    name: str
    secure: int
    plain: int
    """For the health check in its container alone."""
    peers: int
    elections: int


def lines_of(server: Server, servers: Sequence[Server], files: Path, data: Path) -> Iterator[str]:
    """`zoo.cfg`, as the image makes it of its environment; this machine has one address for all."""
    environment = PLAIN[server.name]["environment"] | SECURE[server.name]["environment"]
    yield from (f"dataDir={data}", "tickTime=2000", "initLimit=5", "syncLimit=2")
    yield f"admin.enableServer={environment['ZOO_ADMINSERVER_ENABLED']}"
    yield f"4lw.commands.whitelist={environment['ZOO_4LW_COMMANDS_WHITELIST']}"
    said = environment["ZOO_SERVERS"].split()
    for one, line in zip(servers, said, strict=True):
        number = one.name.rpartition("-")[2]
        assert line == f"server.{number}={one.name}:2888:3888;127.0.0.1:2181"
        yield f"server.{number}=127.0.0.1:{one.peers}:{one.elections};127.0.0.1:{one.plain}"
    mounted = dict(volume.split(":")[1::-1] for volume in SECURE[server.name]["volumes"])
    for line in environment["ZOO_CFG_EXTRA"].split():
        name, _, value = line.partition("=")
        if name == "secureClientPort":
            value = str(server.secure)
        elif value in mounted:
            value = str(files / Path(mounted[value]).name)
        yield f"{name}={value}"


@pytest.fixture(scope="module")
def ensemble(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    """The three servers of the file, without their containers."""
    folder = tmp_path_factory.mktemp("ensemble")
    names = sorted(name for name in SECURE if name.startswith("zookeeper"))
    ports = iter(free_ports(4 * len(names)))
    servers = [Server(name, *(next(ports) for _ in range(4))) for name in names]
    with ExitStack() as stack:
        for number, server in enumerate(servers, start=1):
            at = folder / server.name
            # Java, its jars and its log; the settings are those of the file.
            command = server_command(at, server.secure, Place(number, {}))
            lines = lines_of(server, servers, files, at / "data")
            (at / "zoo.cfg").write_text("\n".join([*lines, ""]))
            with (at / "zookeeper.log").open("wb") as log:
                process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
            stack.callback(process.wait)
            stack.callback(process.kill)
        wait_for(lambda: all(answers(server.plain) for server in servers), "a quorum, in TLS")
        yield servers


def settings(**more: Any) -> CoordinationSettings:
    return FAST.model_copy(update={"password": SecretStr("p" * 32), **more})


def given_to(name: str, ensemble: Sequence[Server], files: Path) -> dict[str, str]:
    """What the files give a process of ours, for the servers of this test."""
    given: dict[str, str] = SECURE[name]["environment"]
    assert given["LAKEQUEUE_COORDINATION__TLS"] == "true"
    hosts = given["LAKEQUEUE_ZOOKEEPER"]
    for server in ensemble:
        hosts = hosts.replace(f"{server.name}:2281", f"127.0.0.1:{server.secure}")
    return given | {
        "LAKEQUEUE_ZOOKEEPER": hosts,
        "LAKEQUEUE_COORDINATION__CA": str(files / Path(given["LAKEQUEUE_COORDINATION__CA"]).name),
        "LAKEQUEUE_COORDINATION__PASSWORD": "p" * 32,
    }


@pytest.mark.zookeeper
@pytest.mark.filterwarnings("ignore:unclosed <ssl:ResourceWarning")
def test_nobody_in_the_open_reaches_the_ensemble_and_none_of_another_authority_joins_it(
    ensemble: list[Server], files: Path
) -> None:
    for server in ensemble:
        hosts = f"127.0.0.1:{server.secure}"
        session = Session(hosts, "q", "a", settings(tls=True, ca=files / "authority.pem"))
        session.start(60)
        session.stop()
        for wrong in (settings(), settings(tls=True)):
            other = Session(hosts, "q", "b", wrong)
            with pytest.raises(CoordinationUnavailable):
                other.start(2)
        for port in (server.peers, server.elections):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as no:
                # Only who leads listens to its peers.
                no.settimeout(30)
                no.sendall(b"\x00" * 64)
                assert not no.recv(1), "words in the open are answered"


@contextmanager
def started(module: str, root: Path, name: str, given: dict[str, str]) -> Iterator[str]:
    """The URL of a process of the file: the entry point of its image, on this machine alone."""
    command = [sys.executable, "-m", module, "--root", str(root), "--port", "0", "--node", name]
    with (root.parent / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--die-with-parent"],
            env=os.environ | given,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=REPOSITORY,
        )
    assert process.stdout is not None
    with process.stdout as out:
        try:
            said = json.loads(out.readline())
            assert said["event"] == "ready", said
            yield said["url"]
        finally:
            process.terminate()
            process.wait(60)


@pytest.mark.zookeeper
def test_the_processes_of_the_file_meet_there_and_a_record_is_consumed(
    ensemble: list[Server], files: Path, tmp_path: Path
) -> None:
    root, made = tmp_path / "queue", locks(tmp_path / "queue")
    log = LogBuilder(made.root)
    log.append(log.topic("hello"), ["hi"])
    key = made.keys["admin"]
    with (
        started("ingest", root, "ingest-1", given_to("ingest-1", ensemble, files)) as ingest,
        started(
            "consumer_service", root, "consumer-1", given_to("consumer-1", ensemble, files)
        ) as node,
        Admin(ingest, node, credentials=key) as admin,
        Consumer("hello", "ci", urls=node, credentials=key) as consumer,
    ):
        found = wait_for(lambda: consumer.poll(5), "the record")
        assert [message.value for message in found] == ["hi"]

        def met() -> bool:
            there = admin.nodes()
            return bool(there.ingest and there.consumer)

        wait_for(met, "both are registered")


def test_every_process_of_the_queue_speaks_tls_to_every_server() -> None:
    servers = {name for name in PLAIN if name.startswith("zookeeper")}
    ours = {n for n, one in PLAIN.items() if "LAKEQUEUE_ZOOKEEPER" in one.get("environment", {})}
    assert set(SECURE) == servers | ours
    for name in ours:
        hosts = SECURE[name]["environment"]["LAKEQUEUE_ZOOKEEPER"].split(",")
        assert set(hosts) == {f"{one}:2281" for one in servers}
    for name in servers:
        environment = SECURE[name]["environment"]
        # The port without TLS answers the health check within the container alone.
        assert all(one.endswith(";127.0.0.1:2181") for one in environment["ZOO_SERVERS"].split())
        assert "sslQuorum=true" in environment["ZOO_CFG_EXTRA"].split()
        assert f"./tls/{name}.pem:/tls/own.pem:ro" in SECURE[name]["volumes"]


@pytest.mark.parametrize("host", ["zookeeper-1", "zookeeper-2", "zookeeper-3"])
def test_each_server_has_a_certificate_in_its_name(files: Path, host: str) -> None:
    command = ["openssl", "verify", "-verify_hostname", host, "-CAfile", "authority.pem"]
    found = subprocess.run([*command, f"{host}.pem"], cwd=files, capture_output=True, check=False)
    assert found.returncode == 0, found.stderr.decode()
    assert (files / "authority-key.pem").stat().st_mode & 0o077 == 0
