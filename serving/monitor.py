"""A small HTTP endpoint beside a process that serves nothing else: health, readiness, metrics.

Nothing depends on it: a port that is taken is told, and the process goes on unwatched.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import structlog

from lakequeue import wire
from lakequeue.errors import InvalidRequest, LakequeueError, Overloaded
from serving.front.hub import Everybody, Gate
from serving.front.messages import Answer, Request, problem_of
from serving.meters import CONTENT_TYPE
from serving.tls import Tls, certificate_of

log = structlog.get_logger("monitor")

_JSON = "application/json"
MOST_CONNECTIONS = 64
HEAD_S = 10.0
"""Within this all of a request has to come, and the handshake of TLS before it."""
YOUNG_S = 1.0
"""Who has sent no whole request for longer makes room for others."""
_LINGER_S = 2.0
"""A connection that is refused is closed after this, so that its client can read why."""
_ROOM_S = 0.2
Reasons = Callable[[], list[str]]
"""Why the process is not ready; [] when it is."""


class Monitor:
    """Serves `/healthz`, `/readyz` and `/metrics` from threads of its own until `close`."""

    def __init__(
        self,
        node: str,
        reasons: Reasons,
        metrics: Callable[[], bytes],
        warnings: Reasons = list,
        gate: Gate | None = None,
        tls: Tls | None = None,
        head_s: float = HEAD_S,
        young_s: float = YOUNG_S,
    ) -> None:
        """`warnings`: what waits for a person, while the process is ready.

        `gate` decides who comes in; None: everybody does.
        """
        self._slow = _Slow(head_s, young_s)
        self._gate = gate or Everybody()
        self._tls = tls
        self._asking = threading.Lock()
        self._node = node
        self._reasons = reasons
        self._metrics = metrics
        self._warnings = warnings
        self._server: ThreadingHTTPServer | None = None

    def start(self, host: str, port: int) -> str | None:
        """Listen; the URL, or None if that port cannot be had. Port 0 takes a free one."""
        try:
            handler = _handler(self._admitted, self._slow)
            server = _Server((host, port), handler, self._tls, self._slow)
        except OSError as error:
            log.warning("monitor.failed", host=host, port=port, why=error.strerror)
            return None
        self._server = server
        threading.Thread(target=server.serve_forever, name="monitor", daemon=True).start()
        scheme = "http" if self._tls is None else "https"
        return "{}://{}:{}".format(scheme, *server.server_address[:2])

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _admitted(self, request: Request) -> Answer:
        """The answer, or the refusal."""
        try:
            with self._asking:
                self._gate.admit(request)
        except LakequeueError as error:
            return problem_of(error)
        if request.method not in {"GET", "HEAD"}:
            body = self._told({"status": "there are GET and HEAD"})
            return Answer(405, body, _JSON, [("Allow", "GET, HEAD")])
        status, kind, body = self.answer(request.path)
        return Answer(status, body, kind)

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """(status, content type, body) of GET `path`."""
        if path == "/metrics":
            return 200, CONTENT_TYPE, self._metrics()
        if path == "/healthz":
            return 200, _JSON, self._told({"status": "alive"})
        if path == "/readyz":
            reasons = [{"code": "not_ready", "detail": reason} for reason in self._reasons()]
            state: dict[str, Any] = {
                "status": "not_ready" if reasons else "ready",
                "reasons": reasons,
                "warnings": [{"code": "waits", "detail": warning} for warning in self._warnings()],
            }
            return (503 if reasons else 200), _JSON, self._told(state)
        return 404, _JSON, self._told({"status": "there are /healthz, /readyz and /metrics"})

    def _told(self, state: dict[str, Any]) -> bytes:
        return json.dumps(state | {"node": self._node}).encode()


class _Slow:
    """Connections whose requests are not whole yet. Thread-safe."""

    def __init__(self, head_s: float, young_s: float) -> None:
        self.head_s = head_s
        self._young_s = young_s
        self._lock = threading.Lock()
        self._began: dict[socket.socket, float] = {}

    def begins(self, link: socket.socket) -> None:
        """A client has come."""
        with self._lock:
            self._began[link] = time.monotonic()

    def came(self, link: socket.socket) -> None:
        """Its request is whole, or it has gone: then this is called before it is closed."""
        with self._lock:
            self._began.pop(link, None)

    def end(self) -> None:
        """End those whose time is over: a byte now and then keeps nobody's thread."""
        self._end_older_than(self.head_s, MOST_CONNECTIONS)

    def make_room(self) -> None:
        """End the oldest, unless it is young."""
        self._end_older_than(self._young_s, 1)

    def _end_older_than(self, seconds: float, most: int) -> None:
        until = time.monotonic() - seconds
        with self._lock:
            for link in [one for one, began in self._began.items() if began <= until][:most]:
                del self._began[link]
                with contextlib.suppress(OSError):
                    # Below TLS: whoever reads there finds the end of it.
                    socket.socket.shutdown(link, socket.SHUT_RDWR)


class _Server(ThreadingHTTPServer):
    """A connection is a thread: whoever opens thousands gets no more than some."""

    daemon_threads = True

    def __init__(
        self,
        address: tuple[str, int],
        handler: type[BaseHTTPRequestHandler],
        tls: Tls | None,
        slow: _Slow,
    ) -> None:
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._slow = slow
        self._refused: deque[tuple[float, socket.socket]] = deque()
        """When they are closed."""
        self._tls = tls
        super().__init__(address, handler)

    def get_request(self) -> tuple[Any, Any]:
        """See `socketserver`."""
        link, address = super().get_request()
        return (link if self._tls is None else self._tls.wrapped(link)), address

    def service_actions(self) -> None:
        """See `socketserver`: twice a second at least. A certificate that has expired keeps all
        clients away, so new files must not wait for one.
        """
        if self._tls is not None:
            self._tls.look()
        self._slow.end()
        while self._refused and self._refused[0][0] <= time.monotonic():
            self._refused.popleft()[1].close()

    def server_close(self) -> None:
        """See `socketserver`."""
        super().server_close()
        while self._refused:
            self._refused.popleft()[1].close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """See `socketserver`: a client that does not speak TLS, or has gone."""
        log.debug("monitor.client_failed", address=client_address[0], error=repr(sys.exception()))

    def process_request(self, request: Any, client_address: Any) -> None:
        """See `socketserver`."""
        if not self._room.acquire(blocking=False):
            self._slow.make_room()
            if not self._room.acquire(timeout=_ROOM_S):
                self._refuse(request)
                return
        self._slow.begins(request)
        super().process_request(request, client_address)

    def _refuse(self, link: socket.socket) -> None:
        """503, and never a wait for the client; it would have to finish a handshake of TLS first,
        so there it is closed without a word.
        """
        if self._tls is not None or len(self._refused) >= MOST_CONNECTIONS:
            link.close()
            return
        with contextlib.suppress(OSError):
            link.setblocking(False)
            link.send(_full())
            link.shutdown(socket.SHUT_WR)
        self._refused.append((time.monotonic() + _LINGER_S, link))

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """See `socketserver`."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def shutdown_request(self, request: Any) -> None:
        """See `socketserver`."""
        self._slow.came(request)
        super().shutdown_request(request)


def _full() -> bytes:
    said = Overloaded(
        f"{MOST_CONNECTIONS} connections are open, which is the most",
        hint="use fewer connections",
        stored="no",
        retry_after_s=1.0,
    )
    body = json.dumps(said.to_problem() | {"status": 503}).encode()
    head = (
        f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: {wire.PROBLEM}\r\n"
        f"Content-Length: {len(body)}\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def _handler(answer: Callable[[Request], Answer], slow: _Slow) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = max(HEAD_S, slow.head_s)
        server_version, sys_version = "lakequeue", ""

        def handle_one_request(self) -> None:
            """Whatever the method is, the gate is asked first."""
            try:
                self.raw_requestline = self.rfile.readline(65_537)
                if self.raw_requestline and self.parse_request():
                    slow.came(self.connection)
                    self._send(answer(self._asked()))
            except TimeoutError:
                log.debug("monitor.client_dropped", address=self.client_address[0])
            # What else the client has sent is not read.
            self.close_connection = True

        def send_error(self, code: int, message: str | None = None, explain: Any = None) -> None:
            """What is no request, as `parse_request` finds."""
            said = InvalidRequest(message or "this is not HTTP", hint="GET /healthz").to_problem()
            self.command, self.request_version = "GET", "HTTP/1.0"
            self._send(Answer(code, json.dumps(said | {"status": code}).encode(), wire.PROBLEM))

        def _asked(self) -> Request:
            given = [(n.lower().encode(), v.encode()) for n, v in self.headers.items()]
            path, _, query = self.path.partition("?")
            link = self.connection
            return Request(
                self.command,
                self.path.encode(),
                path,
                query,
                given,
                self.client_address[0],
                self.request_version.removeprefix("HTTP/"),
                certificate=certificate_of(
                    link.getpeercert() if isinstance(link, ssl.SSLSocket) else None
                ),
            )

        def _send(self, told: Answer) -> None:
            self.send_response(told.status)
            self.send_header("Content-Type", told.content_type or _JSON)
            self.send_header("Content-Length", str(len(told.body)))
            for name, value in told.headers:
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(told.body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- as above
            """Scrapes are not worth a line each."""

    return Handler
