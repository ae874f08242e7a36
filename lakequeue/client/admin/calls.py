"""How `Admin` calls the services, and reads their answers."""

from __future__ import annotations

import time
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from lakequeue.calling import addresses, blocking_runner, forks
from lakequeue.calling.addresses import Urls
from lakequeue.calling.calls import CallPolicy, call
from lakequeue.calling.closing import Closes
from lakequeue.calling.credentials import Credentials
from lakequeue.calling.effects import Reply, Request
from lakequeue.calling.nodes import Nodes
from lakequeue.errors import Broken, InvalidRequest
from lakequeue.records import checked_name
from lakequeue.wire import loads_exactly

M = TypeVar("M", bound=BaseModel)


class ServiceCalls(Closes):
    """The nodes of both services, and one way to call them."""

    def __init__(
        self,
        urls: Urls | None = None,
        consumer_urls: Urls | None = None,
        *,
        timeout_s: float = 10.0,
        credentials: Credentials | str | None = None,
    ) -> None:
        """`credentials`: an API key or token; by default what the environment says."""
        self._ingest = Nodes(addresses.ingest_urls(urls))
        self._consumer = Nodes(addresses.consumer_urls(consumer_urls))
        self._timeout_s = timeout_s
        self._credentials = credentials
        self._http = blocking_runner.open_http(
            {}, self._ingest.urls + self._consumer.urls, credentials
        )
        self._closing = False
        self._signal = blocking_runner.new_signal()

    def _call(
        self, nodes: Nodes, method: str, path: str, body: Any = None, takes_s: float = 0.0
    ) -> Reply:
        content = None if body is None else orjson.dumps(body)
        request = Request(method, path, body=content, read_timeout_s=30.0 + takes_s)
        policy = CallPolicy(self._timeout_s, lambda: self._closing)
        script = call(nodes, request, time.monotonic, policy)
        return blocking_runner.run(script, self._http, self._signal).reply

    def close(self) -> None:
        """Close the connections. A forked child leaves them to its parent."""
        if forks.is_parents(self._signal.made_in):
            return
        self._closing = True
        self._signal.notify()
        self._http.close()


def path_of_topic(name: str) -> str:
    return f"/v1/topics/{checked_name(name, 'topic')}"


def path_of_group(name: str) -> str:
    return f"/v1/groups/{checked_name(name, 'group')}"


def checked(model: type[M], fields: dict[str, Any]) -> M:
    try:
        return model.model_validate(fields)
    except ValidationError as e:
        first = e.errors()[0]
        field = ".".join(str(p) for p in first["loc"])
        raise InvalidRequest(f"{field}: {first['msg']}", hint="see docs/sdk.md", field=field) from e


def answer_of(model: type[M], reply: Reply) -> M:
    try:
        return model.model_validate_json(reply.body)
    except ValidationError as e:
        raise Broken(f"the answer cannot be read: {e}") from e


def answer_with_records(model: type[M], reply: Reply) -> M:
    """The same of an answer with records: their numbers are kept, and they may be nested deeply."""
    try:
        return model.model_validate(loads_exactly(reply.body))
    except ValueError as e:
        raise Broken(f"the answer cannot be read: {e}") from e
