"""Whose a listening port is."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lakequeue_cli.supervisor.child import Child
from lakequeue_cli.supervisor.listeners import listens
from lakequeue_cli.supervisor.plan import ChildSpec, Drain, HttpReady
from lakequeue_cli.supervisor.probes import ready

HERE = "127.0.0.1"
INIT = 1
"""A process that is not ours, and listens nowhere here."""


class Answers(BaseHTTPRequestHandler):
    """200 to everything, as a node that is ready."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        return


@pytest.fixture
def url() -> Iterator[str]:
    """Of a service in this process."""
    with ThreadingHTTPServer((HERE, 0), Answers) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://{HERE}:{server.server_address[1]}/readyz"
        server.shutdown()
        serving.join()


def test_a_port_is_of_the_process_that_listens_on_it() -> None:
    with socket.create_server((HERE, 0)) as listener:
        port = listener.getsockname()[1]
        assert listens(os.getpid(), port)
        assert not listens(INIT, port)
        with socket.create_connection((HERE, port)) as link:
            assert not listens(os.getpid(), link.getsockname()[1]), "connected is not listening"
    assert not listens(os.getpid(), port)


def test_a_member_of_the_group_may_listen_for_it() -> None:
    with socket.create_server((HERE, 0)) as listener:
        assert listens(os.getpgrp(), listener.getsockname()[1])


def test_somebody_elses_answer_makes_no_child_ready(url: str) -> None:
    assert ready(HttpReady(url), os.getpid())
    assert not ready(HttpReady(url), INIT)


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ("--ingest-port", "choose another --ingest-port; 0 takes a free one"),
        ("", "start `lakequeue"),
    ],
)
def test_a_child_whose_port_is_taken_names_the_option_of_up(
    tmp_path: Path, option: str, advice: str
) -> None:
    with socket.create_server((HERE, 0)) as other:
        place = (HERE, other.getsockname()[1])
        spec = ChildSpec(
            "a", (), HttpReady("http://x:1/"), Drain.INGEST, 1.0, place=place, option=option
        )
        taken = Child(spec, tmp_path, {}).port_taken()
        assert taken is not None
        assert taken.startswith(f"port {place[1]} on {HERE} is in use by another process")
        assert advice in taken
    assert Child(spec, tmp_path, {}).port_taken() is None
