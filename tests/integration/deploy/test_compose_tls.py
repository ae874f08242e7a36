"""The compose file's TLS to ZooKeeper: its certificates and its settings, on servers of our own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import SecretStr

from coordination.embedded import free_port, server_command
from coordination.zookeeper.session import Session
from lakequeue.errors import CoordinationUnavailable
from lakequeue.settings import CoordinationSettings
from tests.support.services.zookeeper import FAST

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


@pytest.fixture
def server(files: Path, tmp_path: Path) -> Iterator[str]:
    """`host:port` of one server with the settings of the file, at paths and ports of this test."""
    port = free_port()
    command = server_command(tmp_path / "zk", free_port())
    mounted = {
        "/tls/own.pem": files / "zookeeper-1.pem",
        "/tls/authority.pem": files / "authority.pem",
    }
    config = tmp_path / "zk" / "zoo.cfg"
    with config.open("a") as lines:
        for line in SECURE["zookeeper-1"]["environment"]["ZOO_CFG_EXTRA"].split():
            name, _, value = line.partition("=")
            # One server has no others to speak to.
            if "quorum" not in name.lower():
                given = port if name == "secureClientPort" else mounted.get(value, value)
                lines.write(f"{name}={given}\n")
    with (tmp_path / "zookeeper.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    yield f"127.0.0.1:{port}"
    process.kill()
    process.wait()


def settings(**more: Any) -> CoordinationSettings:
    return FAST.model_copy(update={"password": SecretStr("p" * 32), **more})


@pytest.mark.zookeeper
@pytest.mark.filterwarnings("ignore:unclosed <ssl:ResourceWarning")
def test_a_node_with_the_settings_of_the_file_reaches_it_and_nobody_in_the_open(
    server: str, files: Path
) -> None:
    given = SECURE["ingest-1"]["environment"]
    assert given["LAKEQUEUE_COORDINATION__TLS"] == "true"
    ca = files / Path(given["LAKEQUEUE_COORDINATION__CA"]).name
    session = Session(server, "q", "a", settings(tls=True, ca=ca))
    session.start(60)
    session.stop()
    other = Session(server, "q", "b", settings())
    with pytest.raises(CoordinationUnavailable):
        other.start(2)


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
