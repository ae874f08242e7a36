"""Requests that end at their deadline, whatever the other side does.

The HTTP client bounds each read. An endpoint that sends a byte now and then keeps all of them
short, and would hold its caller for ever. So the connection is cut when the time is over.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import httpx2


class TimedClient:
    """One client with at most one connection. For one request at a time."""

    def __init__(self, timeout_s: float, trust: ssl.SSLContext) -> None:
        self.late = False
        """The time of the last request was over before it ended: its answer does not count."""
        self.http = httpx2.Client(
            follow_redirects=False,
            trust_env=False,
            verify=trust,
            # Later than the cut, which knows what to say.
            timeout=httpx2.Timeout(timeout_s + 1.0),
            limits=httpx2.Limits(max_connections=1),
        )
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._watched: object | None = None
        self._link: socket.socket | None = None
        self._handshake: socket.socket | None = None

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """A request: cut off when the time is over, and `late` is true then."""
        this = object()
        with self._lock:
            self.late, self._watched = False, this
        timer = threading.Timer(self._timeout_s, self._cut, (this,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with self._lock:
                self._watched = None

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """The extension `trace` of a request: which socket there is to cut."""
        if event == "connection.start_tls.started":
            # Its number passes to the TLS socket, which is not known before the handshake is over.
            with self._lock:
                self._handshake = None if self._link is None else self._link.dup()
                self._link = self._handshake
        elif event in {"connection.connect_tcp.complete", "connection.start_tls.complete"}:
            self._keep(info["return_value"].get_extra_info("socket"))
        elif event == "connection.start_tls.failed":
            self._keep(None)

    def _keep(self, link: socket.socket | None) -> None:
        with self._lock:
            if self._handshake is not None:
                self._handshake.close()
                self._handshake = None
            self._link = link
            if self.late:
                self._shut()

    def _cut(self, request: object) -> None:
        with self._lock:
            if self._watched is request:
                self.late = True
                self._shut()

    def _shut(self) -> None:
        if self._link is not None:
            # It may be closed already. Not TLS's own shutdown: nobody listens.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self._link, socket.SHUT_RDWR)
