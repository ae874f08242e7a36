"""The services, asked by HTTP with the key of whoever looks, and no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx2
import orjson

from lakequeue import Admin
from lakequeue.calling.blocking_runner import open_http, reply_of
from lakequeue.calling.calls import problem_of
from lakequeue.calling.credentials import Credentials
from lakequeue.errors import TryAgain, Unreachable

Service = Literal["ingest", "consumer"]
CONNECT_S = 0.3
EACH_S = 0.45
"""One node has this long, then another one is asked."""
_AWAY_S = 10.0
"""A node that did not answer is asked last for so long."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the services and the drivers are, as far as the console was told."""

    ingest: tuple[str, ...]
    consumer: tuple[str, ...]
    drivers: tuple[str, ...] = ()
    gateways: tuple[str, ...] = ()
    """Of SQS."""


@dataclass(frozen=True, slots=True)
class Replied:
    """What one address answered: None, if nothing in time."""

    status: int | None
    body: bytes = field(default=b"", repr=False)
    took_s: float = 0.0


class Services:
    """Thread-safe. One a key: its connections carry that key alone."""

    def __init__(self, at: Addresses, key: str | None, ca: str | None) -> None:
        self.at = at
        self.credentials = Credentials(key, ca=ca)
        every = [*at.ingest, *at.consumer, *at.drivers, *at.gateways]
        self._http = open_http({}, every, self.credentials)
        self._lock = threading.Lock()
        self._known: dict[Service, list[str]] = {
            "ingest": [*at.ingest],
            "consumer": [*at.consumer],
        }
        self._away: dict[str, float] = {}
        self.names: dict[str, str] = {}
        """URL → name of each node that was registered when the list was last read."""

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def admin(self, timeout_s: float) -> Admin:
        """The SDK's own client, for calls that change something."""
        ingest, consumer = self.nodes("ingest"), self.nodes("consumer")
        return Admin(ingest, consumer, timeout_s=timeout_s, credentials=self.credentials)

    def learn(self, service: Service, names: Mapping[str, str]) -> None:
        """Nodes that are registered (URL → name), beside those that were told."""
        told = self.at.ingest if service == "ingest" else self.at.consumer
        with self._lock:
            self._known[service] = [*dict.fromkeys([*told, *names])]
            self.names.update(names)

    def nodes(self, service: Service) -> list[str]:
        """The nodes; those that did not answer lately come last."""
        now = time.monotonic()
        with self._lock:
            return sorted(self._known[service], key=lambda url: self._away.get(url, 0.0) > now)

    def get(self, service: Service, path: str, within_s: float = 2 * EACH_S) -> Any:
        """The answer as JSON, of the first node that answers. Raises the error of the service."""
        return orjson.loads(self.request(service, "GET", path, within_s=within_s))

    def request(
        self, service: Service, method: str, path: str, body: Any = None, within_s: float = 0.9
    ) -> bytes:
        """The same of any call. Only one that never left goes to another node, but for GET."""
        until = time.monotonic() + within_s
        nodes, last = self.nodes(service), None
        for left, url in zip(range(len(nodes), 0, -1), nodes, strict=True):
            remaining = until - time.monotonic()
            if remaining <= 0.02:
                break
            try:
                return self._one(url, method, path, body, max(EACH_S, remaining / left), remaining)
            except TryAgain as error:
                last = error
                sent = isinstance(error, Unreachable) and error.stored != "no"
                if method != "GET" and sent:
                    raise
        raise last or Unreachable(
            f"no {service} node answers within {within_s:g} s",
            hint="start the services with `lakequeue up`, or see their logs",
        )

    def _one(
        self, url: str, method: str, path: str, body: Any, each_s: float, most_s: float
    ) -> bytes:
        timeout = httpx2.Timeout(min(each_s, most_s), connect=min(CONNECT_S, most_s))
        content = None if body is None else orjson.dumps(body)
        headers = {} if body is None else {"content-type": "application/json"}
        try:
            response = self._http.request(
                method, url + path, content=content, headers=headers, timeout=timeout
            )
        except httpx2.RequestError as error:
            with self._lock:
                self._away[url] = time.monotonic() + _AWAY_S
            sent = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            raise Unreachable(
                f"{url} does not answer within {min(each_s, most_s):.1f} s",
                hint="the process is down, or hangs; see its log",
                stored="unknown" if sent and method != "GET" else "no",
                url=url,
            ) from error
        with self._lock:
            self._away.pop(url, None)
        if response.status_code >= 300:
            raise problem_of(reply_of(response), url)
        return bytes(response.content)

    def look_at(self, url: str, path: str, within_s: float) -> Replied:
        """What exactly that address answers; raises nothing."""
        began = time.monotonic()
        try:
            response = self._http.get(
                url + path, timeout=httpx2.Timeout(within_s, connect=min(CONNECT_S, within_s))
            )
        except (httpx2.RequestError, RuntimeError):
            with self._lock:
                self._away[url] = time.monotonic() + _AWAY_S
            return Replied(None, took_s=time.monotonic() - began)
        return Replied(response.status_code, response.content, time.monotonic() - began)


def place_of(url: str) -> str:
    """`host:port` of a URL. Pure."""
    return urlsplit(url).netloc
