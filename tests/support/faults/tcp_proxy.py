"""A TCP proxy that can be slow, silent, or cut: the network between two processes."""

from __future__ import annotations

import contextlib
import socket
import threading
from enum import StrEnum
from types import TracebackType
from typing import Self

_CHUNK = 65_536
_LOOK_S = 0.05


class Line(StrEnum):
    """What the network is like."""

    OPEN = "open"
    SILENT = "silent"
    """Connections stay, and nothing passes: what is sent waits."""
    CUT = "cut"
    """Connections are closed, and no new one comes about."""


class TcpProxy:
    """Forwards to `target` (`host:port`); a context manager."""

    def __init__(self, target: str = "") -> None:
        self.target = target
        self.delay_s = 0.0
        """Before each piece is passed on, in each direction."""
        self._line = Line.OPEN
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._links: list[socket.socket] = []
        self._lock = threading.Lock()
        self._closed = threading.Event()
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    @property
    def address(self) -> str:
        """`host:port` to connect to."""
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def set(self, line: Line) -> None:
        """Change the network from now on."""
        self._line = line
        if line is Line.CUT:
            self._drop()

    def _drop(self) -> None:
        with self._lock:
            links, self._links = self._links, []
        for link in links:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                near, _ = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._serve, args=(near,), name="proxied", daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        host, _, port = self.target.rpartition(":")
        with contextlib.ExitStack() as held:
            held.callback(near.close)
            if self._line is Line.CUT:
                return
            try:
                far = held.enter_context(socket.create_connection((host, int(port)), 5))
            except OSError:
                return
            far.settimeout(None)
            with self._lock:
                self._links += [near, far]
            back = threading.Thread(target=self._pump, args=(far, near), daemon=True)
            back.start()
            self._pump(near, far)
            back.join()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(_CHUNK):
                if self.delay_s:
                    self._closed.wait(self.delay_s)
                while self._line is Line.SILENT and not self._closed.wait(_LOOK_S):
                    continue
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for link in (source, sink):
                with contextlib.suppress(OSError):
                    link.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed.set()
        self._listener.close()
        self._drop()
