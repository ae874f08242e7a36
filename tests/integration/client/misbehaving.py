"""A small HTTP server on loopback that misbehaves as told: for what real nodes do only by chance.

It keeps what it stores, deduplicated by message id as the order job does, so that a test can ask
what would have become of the records.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import orjson

from lakequeue.errors import (
    InvalidRequest,
    LakequeueError,
    Overloaded,
    StorageUnavailable,
    TooLarge,
)

Act = Literal["store", "store_and_drop", "drop", "unavailable", "overloaded", "hang"]


class Misbehaving(ThreadingHTTPServer):
    """Stores the records of each produce request; `acts` says how the next ones are treated."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.acts: list[Act] = []
        self.requests: list[dict[str, Any]] = []
        self.ordered: dict[str, Any] = {}
        self.refuse_values: set[Any] = set()
        self.max_records = 10_000
        self.let_go = threading.Event()
        self.arrived = threading.Event()
        self.lock = threading.Lock()
        self.most_at_once = 0
        self.at_once = 0
        self.stamp = 100

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def store(self, body: dict[str, Any]) -> dict[str, Any]:
        """Store a request as a whole, or raise."""
        records = body["records"]
        if len(records) > self.max_records:
            raise TooLarge(f"{len(records)} records", stored="no")
        for i, record in enumerate(records):
            if record.get("value") in self.refuse_values:
                raise InvalidRequest("bad value", stored="no", record=i, field="value")
        answers = []
        for i, record in enumerate(records):
            mid = record.get("message_id") or f"{body['producer_id']}:{body['sequence'] + i}"
            self.ordered.setdefault(mid, record.get("value"))
            answers.append({"partition": 0, "message_id": mid})
        self.stamp += 1
        return {"records": answers, "stamp": self.stamp}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Misbehaving

    def do_POST(self) -> None:
        body = orjson.loads(self.rfile.read(int(self.headers["content-length"])))
        server = self.server
        with server.lock:
            server.at_once += 1
            server.most_at_once = max(server.most_at_once, server.at_once)
            server.requests.append(body)
            act: Act = server.acts.pop(0) if server.acts else "store"
        server.arrived.set()
        try:
            self._act(act, body)
        finally:
            with server.lock:
                server.at_once -= 1

    def _act(self, act: Act, body: dict[str, Any]) -> None:
        if act == "hang":
            self.server.let_go.wait(30)
        if act in {"drop", "store_and_drop"}:
            if act == "store_and_drop":
                self.server.store(body)
            self.close_connection = True
            self.connection.close()
            return
        try:
            if act == "unavailable":
                raise StorageUnavailable("no", stored="no")
            if act == "overloaded":
                raise Overloaded("full", stored="no", retry_after_s=0.3)
            self._answer(200, self.server.store(body))
        except LakequeueError as e:
            self._answer(e.http_status, e.to_problem())

    def _answer(self, status: int, body: Any) -> None:
        data = orjson.dumps(body)
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base names it so
        """Quiet."""


@contextmanager
def misbehaving() -> Iterator[Misbehaving]:
    """A running server."""
    server = Misbehaving()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.let_go.set()
        server.shutdown()
        thread.join()
        server.server_close()
