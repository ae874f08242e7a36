"""One request to a webhook's endpoint."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import orjson

from consumer_service.clients import Record
from consumer_service.webhooks.target import Target, Verdict, addresses_of, judge
from consumer_service.webhooks.timed_requests import TimedClient
from lakequeue.tracing import spans
from lakequeue.tracing.context import in_record
from lakequeue.wire.calls.webhooks import WebhookFormat, sign
from lakequeue.wire.cloud_events import binary_of

_MAX_ANSWER_BYTES = 64 << 10
"""More is not read: what counts is the status, and that the answer came to its end."""


class Endpoint:
    """Posts records to one URL. Thread-safe."""

    def __init__(
        self,
        target: Target,
        key: bytes,
        timeout_s: float,
        *,
        allow_private: bool,
        ca: Path | None = None,
        form: WebhookFormat = "record",
    ) -> None:
        """`ca`: authorities that are trusted beside the public ones. Raises `OSError`."""
        self._target = target
        self._key = key
        self._timeout_s = timeout_s
        self._allow_private = allow_private
        self._form = form
        # For all of them: reading the certificates takes longer than a request.
        self._trust = httpx2.create_ssl_context(trust_env=False)
        if ca is not None:
            self._trust.load_verify_locations(ca)
        self._lock = threading.Lock()
        self._idle: list[TimedClient] = []
        self._lines: list[TimedClient] = []

    def post(self, group: str, record: Record) -> Verdict:
        """Post one record; what that came to. Does not raise."""
        document = record.document() | {"group": group}
        trace = in_record(document)
        about: dict[str, str | int] = {
            "messaging.consumer.group.name": group,
            "messaging.message.delivery_attempt": record.attempt or 0,
            "server.address": self._target.host,
        }
        with spans.span(
            "push", record.topic, "CLIENT", parent=trace, links=[trace], attributes=about
        ) as tracing:
            own = {} if trace is None else trace.of_request()
            verdict = self._posted(group, record, document, {**own, **tracing.request_headers()})
            if not verdict.done:
                tracing.failed("webhook_refused")
            return verdict

    def _posted(
        self, group: str, record: Record, document: dict[str, Any], traced: Mapping[str, str]
    ) -> Verdict:
        body, kind = self._body(document)
        # The same for every attempt, so that an endpoint can tell a repetition.
        delivery_id = f"{group}/{record.topic}/{record.partition}/{record.offset}"
        headers = sign(self._key, delivery_id, int(time.time()), body)
        headers = {**traced, **kind, **headers} | {"host": self._target.host_header}
        try:
            # Looked up and checked for each request: a name can change what it stands for.
            address = addresses_of(self._target, allow_private=self._allow_private)[0]
            return self._send(self._target.at(address), body, headers)
        except Exception as e:  # noqa: BLE001 - what cannot be posted has to be given back
            return Verdict(False, f"{type(e).__name__}: {e}")

    def _body(self, record: dict[str, Any]) -> tuple[bytes, dict[str, str]]:
        """What is posted, and the headers that say what it is."""
        if self._form == "cloudevents":
            headers, body = binary_of(record)
            return body, headers
        return orjson.dumps(record), {"content-type": "application/json"}

    def _send(self, url: str, body: bytes, headers: dict[str, str]) -> Verdict:
        line = self._line()
        try:
            with line.request():
                verdict = self._ask(line, url, body, headers)
        except Exception:
            if not line.late:
                raise
        finally:
            with self._lock:
                self._idle.append(line)
        # What was cut off can look like an answer that has come to its end.
        late = Verdict(False, f"no whole answer within {self._timeout_s:g} s")
        return late if line.late else verdict

    def _ask(self, line: TimedClient, url: str, body: bytes, headers: dict[str, str]) -> Verdict:
        with line.http.stream(
            "POST",
            url,
            content=body,
            headers=headers,
            extensions={"sni_hostname": self._target.host, "trace": line.trace},
        ) as answer:
            size = 0
            for piece in answer.iter_raw():
                size += len(piece)
                if size > _MAX_ANSWER_BYTES:
                    return Verdict(False, f"answered more than {_MAX_ANSWER_BYTES} bytes")
            return judge(answer.status_code, answer.headers.get("retry-after"))

    def _line(self) -> TimedClient:
        """One that nobody uses; the last one used is the likeliest to be connected."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            self._lines.append(line := TimedClient(self._timeout_s, self._trust))
        return line

    def close(self) -> None:
        """Close the connections."""
        for line in self._lines:
            line.http.close()
