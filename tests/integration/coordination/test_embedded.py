"""The embedded server: its life as a child process."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from coordination.embedded import EmbeddedZooKeeper, answers
from lakequeue.errors import CoordinationUnavailable
from lakequeue.processes.started import started_at
from tests.support.services.zookeeper import MakeSession, wait_for

pytestmark = pytest.mark.zookeeper

PARENT = """
import sys
from pathlib import Path
from coordination.embedded import EmbeddedZooKeeper
server = EmbeddedZooKeeper(Path(sys.argv[1]))
server.start()
print(server.pid, server.port, flush=True)
input()
"""


def test_what_was_written_survives_a_kill(
    own_zookeeper: EmbeddedZooKeeper, sessions: MakeSession
) -> None:
    session = sessions(server=own_zookeeper)
    session.ensure(session.path("kept"), b"by fsync")
    own_zookeeper.kill()
    assert not own_zookeeper.running
    own_zookeeper.start()
    wait_for(session.connected.is_set)
    found = session.read(session.path("kept"))
    assert found is not None
    assert found[0] == b"by fsync"


def test_it_listens_on_loopback_only(zookeeper: EmbeddedZooKeeper) -> None:
    listening = subprocess.run(
        ["cat", "/proc/net/tcp", "/proc/net/tcp6"], capture_output=True, text=True, check=True
    ).stdout
    port = f":{zookeeper.port:04X}"
    local = [line.split()[1] for line in listening.splitlines() if line.split()[3] == "0A"]
    mine = [address for address in local if address.endswith(port)]
    assert mine
    loopback = {"0100007F", "0000000000000000FFFF00000100007F"}
    assert {address.partition(":")[0] for address in mine} <= loopback


def test_a_port_in_use_is_a_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = EmbeddedZooKeeper(tmp_path, taken.getsockname()[1])
        with pytest.raises(CoordinationUnavailable, match="is the port in use"):
            server.start(timeout_s=15)
    assert not server.running


def test_its_log_is_json_a_line(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    server = EmbeddedZooKeeper(folder)
    server.start()
    link = socket.create_connection(("127.0.0.1", server.port))
    # So large a request is an error that it puts down.
    link.sendall(struct.pack(">I", 0x7FFFFFF0) + b"x" * 64)
    while link.recv(1_024):
        pass
    link.close()
    server.stop()
    lines = (folder / "zookeeper.log").read_text().splitlines()
    assert all({"event", "level", "message"} <= json.loads(line).keys() for line in lines), lines


def test_it_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert parent.stdout is not None
    pid, port = map(int, parent.stdout.readline().split())
    assert answers(port)
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    wait_for(lambda: started_at(pid) == "", "the server is gone")
    assert not answers(port)
