"""An HTTP endpoint that webhooks are posted to, in this process."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self


class Post(NamedTuple):
    """A request that came."""

    headers: dict[str, str]
    """With lower-case names."""
    body: bytes

    @property
    def record(self) -> dict[str, Any]:
        """The record in it."""
        record: dict[str, Any] = json.loads(self.body)
        return record


Answer = Callable[[Post, BaseHTTPRequestHandler], None]


def status(code: int, **headers: str) -> Answer:
    """An endpoint that always answers so; `_` in names of headers is `-`."""

    def answer(_post: Post, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("content-length", "0")
        handler.end_headers()

    return answer


class Endpoint:
    """Serves on a free port; `with` stops it."""

    def __init__(self, answer: Answer, tls: ssl.SSLContext | None = None) -> None:
        self.answer = answer
        self._scheme = "http" if tls is None else "https"
        self.posts: list[Post] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                post = Post({k.lower(): v for k, v in self.headers.items()}, body)
                endpoint.posts.append(post)
                endpoint.answer(post, self)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}/hook"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def offsets(self) -> list[int]:
        """Offsets of what came, in order."""
        return [post.record["offset"] for post in self.posts]
