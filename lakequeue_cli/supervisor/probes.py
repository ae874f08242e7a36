"""Asks a child whether it is ready; an answer that does not come in time is a no, and so is one of
somebody else who listens at its port.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import urllib.parse
from pathlib import Path
from typing import assert_never

from lakequeue_cli.supervisor.listeners import listens
from lakequeue_cli.supervisor.plan import DriverReady, HttpReady, Probe, ZooKeeperReady

_TIMEOUT_S = 1.0
SERVING = ("standby", "leading")
"""States in a driver's file that count as ready."""


def ready(probe: Probe, pid: int) -> bool:
    """Whether the child with this pid is ready."""
    match probe:
        case HttpReady(url):
            port = urllib.parse.urlsplit(url).port or 0
            return http_status(url) == http.client.OK and listens(pid, port)
        case DriverReady(state_file):
            return driver_state(read_state(state_file), pid) in SERVING
        case ZooKeeperReady(port):
            return zookeeper_answers(port) and listens(pid, port)
        case _:
            assert_never(probe)


def http_status(url: str) -> int | None:
    """The status of GET `url`, None if there is no answer."""
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https":
        link: http.client.HTTPConnection = http.client.HTTPSConnection(
            host, parts.port, timeout=_TIMEOUT_S, context=_any_certificate()
        )
    else:
        link = http.client.HTTPConnection(host, parts.port, timeout=_TIMEOUT_S)
    try:
        link.request("GET", parts.path)
        return link.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        link.close()


def _any_certificate() -> ssl.SSLContext:
    """Nothing is sent and nothing believed but that something answers on a port of this machine.

    Its certificate may name another host, or have expired: that is for clients to judge.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def read_state(state_file: Path) -> bytes:
    """What a driver has written of itself; nothing if it has not yet."""
    try:
        return state_file.read_bytes()
    except FileNotFoundError:
        return b""


def driver_state(content: bytes, pid: int) -> str | None:
    """The state of the order job in a driver's file.

    None if the file is of another process, or the driver is not that far yet.
    """
    try:
        document = json.loads(content)
    except ValueError:
        return None
    if not isinstance(document, dict) or document.get("pid") != pid:
        return None
    order = document.get("order")
    return str(order.get("state")) if isinstance(order, dict) else None


def zookeeper_answers(port: int) -> bool:
    """Whether a ZooKeeper server serves on the loopback `port`."""
    try:
        with socket.create_connection(("127.0.0.1", port), _TIMEOUT_S) as link:
            link.sendall(b"srvr")
            return link.recv(64).startswith(b"Zookeeper version")
    except OSError:
        return False
