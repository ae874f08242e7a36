"""Requests to ZooKeeper: every one with a deadline, every failure one of ours.

The client library queues a request while the connection is away and sends it when it is back,
however late, and waits without end by default. Neither happens here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError

from lakequeue.errors import CoordinationForbidden, CoordinationUnavailable

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


_AT_ONCE = 250
"""Of many requests so many are under way: behind more than these no heartbeat has to wait."""


class Wakes(Protocol):
    """What a watch sets: an event, or whatever notes more than that something has changed."""

    def set(self) -> None:
        """Something has changed. Must not wait, nor ask ZooKeeper."""


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
        except NoAuthError:
            raise self.forbidden() from None

    def away(self, cause: BaseException | None = None) -> CoordinationUnavailable:
        """The error to raise when ZooKeeper does not answer."""
        reason = f" ({type(cause).__name__})" if cause is not None else ""
        return CoordinationUnavailable(
            f"ZooKeeper at {self.hosts} does not answer{reason}",
            hint="retry; see `lakequeue doctor`",
            retry_after_s=1.0,
        )

    def forbidden(self) -> CoordinationForbidden:
        """The error to raise when nodes are closed to this process."""
        return CoordinationForbidden(
            f"ZooKeeper at {self.hosts} refuses: nodes of this queue belong to another password",
            hint="set coordination.password_file (LAKEQUEUE_COORDINATION__PASSWORD_FILE) to the "
            "file that the other processes use; `lakequeue up` keeps its own in "
            "<work folder>/zookeeper-password",
        )

    def get_all(self, paths: list[str]) -> list[tuple[bytes, Any] | None]:
        """Data and stat of many nodes in one round of requests; None where there is no node."""
        return list(self._each(self.kazoo.get_async, [(path, None) for path in paths]))

    def children_of_all(self, paths: Mapping[str, Wakes]) -> list[list[str]]:
        """As `children` of each path, with its event, in one round of requests."""
        watched = [(path, _watch(event)) for path, event in paths.items()]
        found = list(self._each(self.kazoo.get_children_async, watched))
        for names, (path, event) in zip(found, paths.items(), strict=True):
            if names is None:
                self._watch_birth(path, event)
        return [sorted(names or ()) for names in found]

    def _each(
        self, request: Callable[..., Any], asked: Sequence[tuple[str, Watch | None]]
    ) -> Iterator[Any]:
        """The answers, in order; the requests do not wait for each other. None: no such node."""
        for at in range(0, len(asked), _AT_ONCE):
            if not self.connected.is_set():
                raise self.away()
            some = asked[at : at + _AT_ONCE]
            for pending in [request(path, watch=watch) for path, watch in some]:
                try:
                    yield pending.get(timeout=self.timeout_s)
                except NoNodeError:
                    yield None
                except AWAY as error:
                    raise self.away(error) from error
                except NoAuthError:
                    raise self.forbidden() from None

    def children(self, path: str, event: Wakes | None = None) -> list[str]:
        """Names of the children, sorted; [] when there is no such node.

        `event`, if given, is set at the next change, and whenever the connection changes.
        """
        try:
            return sorted(self.call(self.kazoo.get_children_async, path, watch=_watch(event)))
        except NoNodeError:
            self._watch_birth(path, event)
            return []

    def read(self, path: str, event: Wakes | None = None) -> tuple[bytes, Any] | None:
        """Data and stat of a node, or None; `event` as for `children`."""
        try:
            found: tuple[bytes, Any] = self.call(self.kazoo.get_async, path, watch=_watch(event))
        except NoNodeError:
            self._watch_birth(path, event)
            return None
        return found

    def _watch_birth(self, path: str, event: Wakes | None) -> None:
        """A read of a missing node leaves no watch: this does."""
        if event is None:
            return
        if self.call(self.kazoo.exists_async, path, watch=_watch(event)) is not None:
            # It was born in between: the reader has to look again.
            event.set()

    def ensure(self, path: str, data: bytes = b"") -> bool:
        """Create a persistent node, with its parents, unless it exists; whether this did."""
        try:
            self.call(self.kazoo.create_async, path, data, makepath=True)
        except NodeExistsError:
            return False
        return True

    def transact(self, *steps: tuple[str, tuple[Any, ...]]) -> list[Any]:
        """Run `(operation, arguments)` as one transaction.

        Returns one result a step; when any of them is an exception, nothing was changed.
        """
        transaction = self.kazoo.transaction()
        for operation, arguments in steps:
            getattr(transaction, operation)(*arguments)
        results: list[Any] = self.call(transaction.commit_async)
        if any(isinstance(result, NoAuthError) for result in results):
            raise self.forbidden()
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

    def __init__(self, event: Wakes) -> None:
        self._event = event

    def __call__(self, _change: Any) -> None:
        self._event.set()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Watch) and other._event is self._event

    def __hash__(self) -> int:
        return id(self._event)


def _watch(event: Wakes | None) -> Watch | None:
    return None if event is None else Watch(event)
