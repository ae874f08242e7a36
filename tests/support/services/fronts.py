"""A front of its own in a thread, over a small application, and raw connections to it."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from serving.front import wsgi
from serving.front.front import Front
from serving.front.hub import Limits
from serving.front.limits.budget import Budget
from serving.front.routes import Way
from serving.front.server import listening, prepare
from serving.tls import Tls

LIMITS = Limits(
    connections=200,
    per_address=200,
    header_s=5.0,
    idle_s=30.0,
    body_grace_s=5.0,
    body_bytes_per_s=1_000_000.0,
    write_s=5.0,
    write_bytes_per_s=1_000_000.0,
)


@dataclass(frozen=True)
class Response:
    """An answer as it was read."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)


class Raw:
    """A connection that sends what it is told, byte for byte."""

    def __init__(self, address: tuple[str, int], receive_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(30.0)
        self.socket.connect(address)
        self._had = b""

    def send(self, data: bytes) -> None:
        """Send these bytes."""
        self.socket.sendall(data)

    def get(self, path: str) -> Response:
        """Ask, and read the answer."""
        self.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return self.read()

    def post(self, path: str, body: bytes, *headers: str) -> Response:
        """Ask, and read the answer."""
        self.send(posted(path, body, *headers))
        return self.read()

    def read(self, *, head: bool = False) -> Response:
        """The next answer. `head`: it has no body, whatever its length says."""
        while b"\r\n\r\n" not in self._had:
            self._more()
        top, _, self._had = self._had.partition(b"\r\n\r\n")
        lines = top.decode("latin-1").split("\r\n")
        headers = {n.lower(): v for n, _, v in (line.partition(": ") for line in lines[1:])}
        if headers.get("transfer-encoding") == "chunked":
            body = self._chunks()
        else:
            length = 0 if head else int(headers.get("content-length", "0"))
            while len(self._had) < length:
                self._more()
            body, self._had = self._had[:length], self._had[length:]
        return Response(int(lines[0].split(" ")[1]), headers, body)

    def _chunks(self) -> bytes:
        whole = b""
        while True:
            while b"\r\n" not in self._had:
                self._more()
            size, _, self._had = self._had.partition(b"\r\n")
            length = int(size, 16)
            while len(self._had) < length + 2:
                self._more()
            whole += self._had[:length]
            self._had = self._had[length + 2 :]
            if not length:
                return whole

    def _more(self) -> None:
        piece = self.socket.recv(65_536)
        if not piece:
            raise EOFError(f"closed after {self._had!r}")
        self._had += piece

    def closed(self) -> bool:
        """Wait until the other end closes without a word (True), or says something."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        """Close this end."""
        self.socket.close()


def posted(path: str, body: bytes, *headers: str) -> bytes:
    """The bytes of a POST."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Running:
    """A front that serves."""

    def __init__(self, front: Front, loop: asyncio.AbstractEventLoop) -> None:
        self.front = front
        self.loop = loop
        self._open: list[Raw] = []

    def connect(self, receive_bytes: int | None = None) -> Raw:
        """A connection, closed at the end."""
        raw = Raw(self.front.server, receive_bytes)
        self._open.append(raw)
        return raw

    def call(self, work: Any) -> Any:
        """Do this in the loop's thread; what it returns."""

        async def there() -> Any:
            return work()

        return asyncio.run_coroutine_threadsafe(there(), self.loop).result(30)

    def close(self) -> None:
        """Close all connections."""
        for raw in self._open:
            raw.close()


def alive(front: Running) -> bool:
    """It answers for its health."""
    return front.connect().get("/healthz").status == 200


@contextmanager
def running(
    app: wsgi.App,
    ways: Sequence[Way],
    bodies: int = 1 << 20,
    tls: Tls | None = None,
    **limits: Any,
) -> Iterator[Running]:
    """Serve on a free port of the loopback."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1024)
    prepare(listener)
    loop = asyncio.new_event_loop()
    host, port = listener.getsockname()
    started, stop = threading.Event(), asyncio.Event()
    made: list[Front] = []

    async def serve() -> None:
        made.append(Front(app, ways, replace(LIMITS, **limits), Budget(bodies), (host, port), loop))
        async with listening(made[0], listener, tls):
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert started.wait(30)
    served = Running(made[0], loop)
    try:
        yield served
    finally:
        served.close()
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()
