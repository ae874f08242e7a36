"""A collector of OpenTelemetry, as far as spans need one: OTLP over HTTP, kept in memory."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import NamedTuple, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.services.zookeeper import wait_for


class Collected(NamedTuple):
    """A span, and who sent it."""

    service: str
    node: str
    span: Span

    @property
    def links(self) -> set[str]:
        """The spans that it is linked with, as `trace-span`."""
        return {f"{one.trace_id.hex()}-{one.span_id.hex()}" for one in self.span.links}

    @property
    def attributes(self) -> dict[str, str | int]:
        """What it says."""
        return {
            one.key: one.value.string_value or one.value.int_value for one in self.span.attributes
        }


class Collector:
    """Listens on a free port; `with` stops it."""

    def __init__(self) -> None:
        self._spans: list[Collected] = []
        self._lock = threading.Lock()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="collector")

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs that is to send its spans here, soon."""
        port = self._server.server_address[1]
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }

    def take(self, request: ExportTraceServiceRequest) -> None:
        """Keep what came."""
        for sent in request.resource_spans:
            said = {one.key: one.value.string_value for one in sent.resource.attributes}
            names = said["service.name"], said["service.instance.id"]
            with self._lock:
                for scope in sent.scope_spans:
                    self._spans += [Collected(*names, span) for span in scope.spans]

    def wait_for(self, name: str, count: int = 1) -> list[Collected]:
        """The spans of that name, once there are so many."""
        wait_for(lambda: len(self.named(name)) >= count, f"{count} spans {name}")
        return self.named(name)

    def named(self, name: str) -> list[Collected]:
        """The spans of that name that have come."""
        with self._lock:
            return [one for one in self._spans if one.span.name == name]

    def everything(self) -> str:
        """All that was said, as text."""
        with self._lock:
            return "\n".join(str(one) for one in self._spans)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()
