"""Requests to ZooKeeper: every one with a deadline, every failure one of ours.

The client library queues a request while the connection is away and sends it when it is back,
however late, and waits without end by default. Neither happens here.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError

from lakequeue.errors import CoordinationUnavailable

AWAY = (
    ConnectionClosedError,
    ConnectionLoss,
    KazooTimeoutError,
    OperationTimeoutError,
    SessionExpiredError,
)
"""What the client library raises when a request was not sent or its outcome is unknown."""
UnexpectedAnswer = KazooException
"""What passes through `Requests.call`: for a loop that goes on whatever the server answers."""


class Requests:
    """What a session can be asked to do; `Session` adds life and trust.

    Data of nodes is bytes; stats are the client library's. A watch is an event that is set at the
    next change, once, and whenever the connection changes: read again then, with the event.
    """

    def __init__(self, hosts: str, queue_id: str, timeout_s: float) -> None:
        self.hosts = hosts
        self.queue_id = queue_id
        self.connected = threading.Event()
        """Set while the connection stands."""
        self.timeout_s = timeout_s
        """The session timeout that the server granted, in seconds; the asked one until then."""
        self.kazoo: KazooClient

    def path(self, *parts: str) -> str:
        """The path of a node of this queue."""
        return "/".join(("/lakequeue", self.queue_id, *parts))

    def call(self, request: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Send an `…_async` request of the client and wait, at most the session timeout.

        Raises `CoordinationUnavailable` when ZooKeeper is away: then a change may have been made
        or not. What the server itself answers (no such node, …) passes as the client's own error.
        """
        if not self.connected.is_set():
            # The library would queue it until the connection is back, and make the change then.
            raise self.away()
        try:
            return request(*args, **options).get(timeout=self.timeout_s)
        except AWAY as error:
            raise self.away(error) from error

    def away(self, cause: BaseException | None = None) -> CoordinationUnavailable:
        """The error to raise when ZooKeeper does not answer."""
        reason = f" ({type(cause).__name__})" if cause is not None else ""
        return CoordinationUnavailable(
            f"ZooKeeper at {self.hosts} does not answer{reason}",
            hint="retry; see `lakequeue doctor`",
            retry_after_s=1.0,
        )

    def get_all(self, paths: list[str]) -> list[tuple[bytes, Any] | None]:
        """Data and stat of many nodes in one round of requests; None where there is no node."""
        if not self.connected.is_set():
            raise self.away()
        found: list[tuple[bytes, Any] | None] = []
        for pending in [self.kazoo.get_async(path) for path in paths]:
            try:
                found.append(pending.get(timeout=self.timeout_s))
            except NoNodeError:
                found.append(None)
            except AWAY as error:
                raise self.away(error) from error
        return found

    def children(self, path: str, event: threading.Event | None = None) -> list[str]:
        """Names of the children, sorted; [] when there is no such node.

        `event`, if given, is set at the next change, and whenever the connection changes.
        """
        try:
            return sorted(self.call(self.kazoo.get_children_async, path, watch=_watch(event)))
        except NoNodeError:
            self._watch_birth(path, event)
            return []

    def read(self, path: str, event: threading.Event | None = None) -> tuple[bytes, Any] | None:
        """Data and stat of a node, or None; `event` as for `children`."""
        try:
            found: tuple[bytes, Any] = self.call(self.kazoo.get_async, path, watch=_watch(event))
        except NoNodeError:
            self._watch_birth(path, event)
            return None
        return found

    def _watch_birth(self, path: str, event: threading.Event | None) -> None:
        """A read of a missing node leaves no watch: this does."""
        if event is None:
            return
        if self.call(self.kazoo.exists_async, path, watch=_watch(event)) is not None:
            # It was born in between: the reader has to look again.
            event.set()

    def ensure(self, path: str, data: bytes = b"") -> None:
        """Create a persistent node, with its parents, unless it exists."""
        with contextlib.suppress(NodeExistsError):
            self.call(self.kazoo.create_async, path, data, makepath=True)

    def transact(self, *steps: tuple[str, tuple[Any, ...]]) -> list[Any]:
        """Run `(operation, arguments)` as one transaction.

        Returns one result a step; when any of them is an exception, nothing was changed.
        """
        transaction = self.kazoo.transaction()
        for operation, arguments in steps:
            getattr(transaction, operation)(*arguments)
        results: list[Any] = self.call(transaction.commit_async)
        return results

    def owns(self, stat: Any) -> bool:
        """Whether an ephemeral node belongs to this session."""
        identity = self.kazoo.client_id
        return identity is not None and bool(stat.ephemeralOwner == identity[0])


class Watch:
    """A watch function that sets an event and nothing else.

    Equal for the same event, so that arming twice leaves one watch.
    """

    __slots__ = ("_event",)

    def __init__(self, event: threading.Event) -> None:
        self._event = event

    def __call__(self, _change: Any) -> None:
        self._event.set()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Watch) and other._event is self._event

    def __hash__(self) -> int:
        return id(self._event)


def _watch(event: threading.Event | None) -> Watch | None:
    return None if event is None else Watch(event)
