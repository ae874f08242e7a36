"""The queue's services, asked in the name of one caller."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import httpx2
import orjson

from lakequeue.calling import blocking_runner
from lakequeue.calling.calls import CallPolicy, call
from lakequeue.calling.credentials import Credentials
from lakequeue.calling.effects import Reply, Request
from lakequeue.calling.nodes import Nodes
from lakequeue.client.admin import Admin
from lakequeue.errors import LakequeueError
from lakequeue.wire import loads_exactly

CALL_S = 20.0
"""For so long a call is repeated while the services say that repeating helps."""
NO_HEADERS: Final[Mapping[str, str]] = {}
_CONNECTIONS = httpx2.Limits(max_connections=2_048, max_keepalive_connections=256)


class Services:
    """Both services. Thread-safe."""

    def __init__(
        self, ingest: Sequence[str], consumer: Sequence[str], credentials: Credentials
    ) -> None:
        self.admin = Admin(ingest, consumer, timeout_s=CALL_S, credentials=credentials)
        self.ingest = Nodes(ingest)
        self.consumer = Nodes(consumer)
        urls = self.ingest.urls + self.consumer.urls
        args = blocking_runner.client_args({}, urls, credentials)
        self._http = httpx2.Client(**args, limits=_CONNECTIONS)
        self._signal = blocking_runner.new_signal()
        self._closing = False

    def ask(
        self,
        nodes: Nodes,
        method: str,
        path: str,
        body: Any,
        *,
        reads_s: float = 30.0,
        within_s: float = CALL_S,
    ) -> Any:
        """The answer, parsed. Raises what `lakequeue.errors` names."""
        return self.reply(nodes, method, path, orjson.dumps(body), reads_s, within_s).json()

    def ask_exactly(self, path: str, body: Any, reads_s: float) -> Any:
        """The same of a receive: numbers in records keep all their digits."""
        reply = self.reply(self.consumer, "POST", path, orjson.dumps(body), reads_s, CALL_S)
        return loads_exactly(reply.body) if reply.body else {"records": []}

    def reply(
        self,
        nodes: Nodes,
        method: str,
        path: str,
        body: bytes,
        reads_s: float,
        within_s: float,
        headers: Mapping[str, str] = NO_HEADERS,
        final: tuple[type[LakequeueError], ...] = (),
    ) -> Reply:
        """The answer as it came. `final`: as of `CallPolicy`."""
        request = Request(method, path, body=body, read_timeout_s=reads_s, headers=headers)
        policy = CallPolicy(within_s, lambda: self._closing, final=final)
        script = call(nodes, request, time.monotonic, policy)
        return blocking_runner.run(script, self._http, self._signal).reply

    def close(self) -> None:
        """Close the connections."""
        self._closing = True
        self._signal.notify()
        self.admin.close()
        self._http.close()
