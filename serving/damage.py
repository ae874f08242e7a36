"""What a service answers while a table that it cannot do without is damaged.

It is alive and not ready, and says what to mend. It looks again every few seconds, so it serves as
soon as the table is repaired: nobody has to start it again.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

import structlog

from lakequeue.errors import CorruptTable, LakequeueError, NotReady, SchemaDrift
from serving.tls import Tls

log = structlog.get_logger("damage")

LOOK_S = 5.0
_PROBLEM = "application/problem+json"
T = TypeVar("T")


def started(
    start: Callable[[], T],
    listener: socket.socket,
    node: str,
    say: Callable[[LakequeueError], None],
    tls: Tls | None = None,
) -> T:
    """What `start` returns, tried again while a table is damaged; `say` is told each new damage.

    `tls`: what the service speaks on `listener`, also while it waits.
    """
    pause = threading.Event()
    said = ""
    while True:
        try:
            return start()
        except (CorruptTable, SchemaDrift) as damage:
            if damage.detail != said:
                said = damage.detail
                log.warning("table.damaged", why=damage.detail, hint=damage.hint)
                say(damage)
            with _answering(listener, node, damage, tls):
                pause.wait(LOOK_S)


def answer(node: str, damage: LakequeueError, path: str) -> tuple[int, str, bytes]:
    """(status, content type, body) of a request. Pure."""
    if path == "/healthz":
        return 200, "application/json", json.dumps({"status": "alive", "node": node}).encode()
    if path == "/readyz":
        reason = {"code": damage.code, "detail": f"{damage.detail}; {damage.hint}"}
        state: dict[str, Any] = {"status": "not_ready", "node": node, "reasons": [reason]}
        return 503, "application/json", json.dumps(state | {"warnings": []}).encode()
    waits = NotReady(damage.detail, hint=damage.hint, stored="no", retry_after_s=LOOK_S)
    return 503, _PROBLEM, json.dumps(waits.to_problem()).encode()


@contextlib.contextmanager
def _answering(
    listener: socket.socket, node: str, damage: LakequeueError, tls: Tls | None
) -> Iterator[None]:
    server = _Server(listener.getsockname()[:2], _handler(node, damage), tls)
    server.daemon_threads = True
    server.socket.close()
    server.socket = listener
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="damaged")
    thread.start()
    try:
        yield
    finally:
        # Not `server_close`: the listener is the service's, which goes on with it.
        server.shutdown()
        thread.join()


class _Server(ThreadingHTTPServer):
    def __init__(
        self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], tls: Tls | None
    ) -> None:
        self._tls = tls
        super().__init__(address, handler, bind_and_activate=False)

    def get_request(self) -> tuple[Any, Any]:
        """See `socketserver`."""
        link, address = super().get_request()
        return (link if self._tls is None else self._tls.wrapped(link)), address

    def service_actions(self) -> None:
        """See `socketserver`."""
        if self._tls is not None:
            self._tls.look()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """See `socketserver`: a client that has gone."""
        log.debug("damage.client_failed", address=client_address[0], error=repr(sys.exception()))


def _handler(node: str, damage: LakequeueError) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10.0

        def handle_one_request(self) -> None:
            """Whatever the method is: the answer is the same."""
            self.close_connection = True
            try:
                self.raw_requestline = self.rfile.readline(65_537)
                if not self.raw_requestline or not self.parse_request():
                    return
            except TimeoutError:
                return
            status, kind, body = answer(node, damage, self.path.partition("?")[0])
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Retry-After", str(int(LOOK_S)))
            # What else the client has sent is not read.
            self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)
            self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- as above
            """Nothing: the damage is in the log."""

    return Handler
