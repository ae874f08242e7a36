"""The front alone, with TLS: a client counts from its first moment."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakequeue.settings import TlsSettings
from serving.tls import Tls
from tests.support.access.certificates import Authority
from tests.support.services.fronts import Running, running
from tests.support.services.small_app import BIG, App
from tests.support.services.zookeeper import wait_for


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def front(app: App, authority: Authority) -> Iterator[Running]:
    """At most five connections."""
    tls = server_tls(authority)
    with running(app.flask, app.ways(), tls=tls, connections=5, per_address=5) as served:
        yield served


def server_tls(authority: Authority) -> Tls:
    files = authority.sign("node")
    return Tls(TlsSettings(cert=files.cert, key=files.key))


def health(front: Running, authority: Authority) -> bytes:
    """The first bytes of an answer; b"": the connection was closed."""
    context = ssl.create_default_context(cafile=str(authority.ca))
    context.check_hostname = False
    try:
        with (
            socket.create_connection(front.front.server, 30) as plain,
            context.wrap_socket(plain) as link,
        ):
            link.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            return link.recv(12)
    except OSError:
        return b""


def test_a_handshake_that_does_not_come_takes_a_place_and_makes_room(
    front: Running, authority: Authority
) -> None:
    for _ in range(5):
        front.connect()
    wait_for(lambda: len(front.front.connections) == 5, "they count")
    wait_for(lambda: health(front, authority) == b"HTTP/1.1 200", "the oldest makes room")
    assert len(front.front.connections) <= 5


def test_a_handshake_that_fails_gives_its_place_back(front: Running, authority: Authority) -> None:
    for _ in range(5):
        raw = front.connect()
        raw.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while raw.socket.recv(4_096):
                pass
    wait_for(lambda: not front.front.connections, "it is no TLS")
    assert health(front, authority) == b"HTTP/1.1 200"


def test_a_client_that_does_not_read_is_let_go_as_without_tls(
    app: App, authority: Authority
) -> None:
    tls = server_tls(authority)
    with running(app.flask, app.ways(), tls=tls, write_s=0.5, write_bytes_per_s=1e9) as front:
        raw = front.connect(receive_bytes=4_096)
        context = ssl.create_default_context(cafile=str(authority.ca))
        context.check_hostname = False
        with context.wrap_socket(raw.socket) as link:
            link.sendall(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
            wait_for(lambda: front.front.unread > 1_000_000, "what it has not read is counted")
            wait_for(lambda: app.ended == ["lost"], "whoever answered hears that it was lost")
        assert front.front.late["answer"] == 1
        wait_for(lambda: front.front.unread == 0, "and its memory is free")


def test_a_client_that_reads_slowly_gets_all_of_it_as_without_tls(
    app: App, authority: Authority
) -> None:
    with running(app.flask, app.ways(), tls=server_tls(authority)) as front:
        raw = front.connect(receive_bytes=65_536)
        context = ssl.create_default_context(cafile=str(authority.ca))
        context.check_hostname = False
        with context.wrap_socket(raw.socket) as link:
            for _ in range(2):
                link.sendall(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
                got = 0
                while got < BIG:
                    got += len(link.recv(65_536))
        wait_for(lambda: app.ended == ["sent", "sent"], "both were sent")
