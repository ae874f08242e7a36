"""A session with ZooKeeper, and how long it may be trusted.

What a holder does in each state:

| state | what it means | consumers | the order leader |
|---|---|---|---|
| trusted | a round trip succeeded within the session timeout less the margin | go on | goes on |
| away (`connected` not set, or `trusted_until` passed) | the session may have ended | stop at once | goes on: its safety is the `txn` in the table |
| lost (`term` rose) | the session has ended, its ephemeral nodes are gone | leases are void: take them anew | no longer leads |

The client library calls listeners and watches from threads that must not wait for ZooKeeper, so
every one of ours only sets events; the threads that wait on them do the work.
"""

from __future__ import annotations

import threading
import time
import uuid
import weakref
from collections.abc import Callable
from pathlib import Path
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
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry

from coordination.burial import forget, remember
from lakequeue.clock import boot_seconds
from lakequeue.errors import CoordinationUnavailable, InvalidRequest
from lakequeue.records import checked_name
from lakequeue.settings import CoordinationSettings

AWAY = (
    ConnectionLoss,
    ConnectionClosedError,
    SessionExpiredError,
    OperationTimeoutError,
    KazooTimeoutError,
)
"""What the client library raises when the outcome of a request is unknown or it was not sent."""
SKEW_EVERY_S = 10.0
MAX_RETRY_DELAY_S = 1.0


class Session:
    """One process's connection to the ensemble; threads share it.

    All nodes of the queue stand under `/lakequeue/<queue_id>`; `path()` makes their paths.
    `remember_in` names a file (one per node name) that a later process uses to close this
    session at once, should this process die: see `coordination.burial`.
    """

    def __init__(
        self,
        hosts: str,
        queue_id: str,
        node: str,
        settings: CoordinationSettings | None = None,
        remember_in: Path | None = None,
    ) -> None:
        self._settings = settings or CoordinationSettings()
        if self._settings.lease_margin_s * 2 > self._settings.session_timeout_s:
            raise InvalidRequest(
                f"lease_margin_s {self._settings.lease_margin_s:g} leaves too little of "
                f"session_timeout_s {self._settings.session_timeout_s:g}",
                hint="the margin may be at most half of the session timeout",
            )
        self.hosts = hosts
        self.queue_id = queue_id
        self.node = checked_name(node, "node")
        self.boot = uuid.uuid4().hex[:12]
        """This incarnation of the node: part of every ephemeral node's name or content."""
        self.connected = threading.Event()
        self.skew_s = 0.0
        """This machine's wall clock less ZooKeeper's, in seconds; measured every 10 s."""
        self._remember_in = remember_in
        self._lock = threading.Lock()
        self._term = 0
        self._trusted_until = float("-inf")
        self._timeout_s = self._settings.session_timeout_s
        self._away_since: float | None = None
        self._wakers: weakref.WeakSet[threading.Event] = weakref.WeakSet()
        self._kept: dict[str, Callable[[], None]] = {}
        self._kept_term = -1
        self._stopping = threading.Event()
        self._wake = self.waker()
        self._thread = threading.Thread(target=self._run, name="zk-heartbeat", daemon=True)
        self.kazoo = self._make_client()

    def _make_client(self) -> KazooClient:
        retry: dict[str, Any] = {"max_tries": -1, "delay": 0.05, "max_delay": MAX_RETRY_DELAY_S}
        client = KazooClient(
            hosts=self.hosts,
            timeout=self._settings.session_timeout_s,
            connection_retry=KazooRetry(**retry),
        )
        client.add_listener(self._on_state)
        # The library logs the timeout that the server granted, and keeps it to itself; a lease
        # must not be trusted for longer than that. It returns two thirds of it as read timeout.
        connection = client._connection
        connect = connection._connect

        def connect_and_note(*args: Any) -> tuple[float, float]:
            read_timeout_ms, connect_timeout_ms = connect(*args)
            self._timeout_s = read_timeout_ms * 1.5 / 1000.0
            return read_timeout_ms, connect_timeout_ms

        connection._connect = connect_and_note
        return client

    # -- life -----------------------------------------------------------------------------------

    def start(self, timeout_s: float = 30.0) -> None:
        """Connect. Raises `CoordinationUnavailable` when nothing answers in `timeout_s`."""
        try:
            self.kazoo.start(timeout=timeout_s)
        except KazooTimeoutError:
            self.kazoo.stop()
            raise CoordinationUnavailable(
                f"ZooKeeper at {self.hosts} did not answer in {timeout_s:g} s",
                hint="is it running? see `lakequeue doctor`",
            ) from None
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        """Close the session: its ephemeral nodes go at once."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self.kazoo.stop()
        self.kazoo.close()
        if self._remember_in is not None:
            forget(self._remember_in)

    # -- trust ----------------------------------------------------------------------------------

    @property
    def term(self) -> int:
        """Rises when the session is lost: what was held in an earlier term is void."""
        return self._term

    @property
    def timeout_s(self) -> float:
        """The session timeout that the server granted."""
        return self._timeout_s

    @property
    def trusted_until(self) -> float:
        """In seconds of `boot_seconds()`: the session lives at least until then."""
        return self._trusted_until

    def trusted(self) -> bool:
        """Whether what this session holds is certainly still held."""
        return self.connected.is_set() and boot_seconds() < self._trusted_until

    def waker(self) -> threading.Event:
        """An event that is set whenever the state changes; the caller clears it, and keeps it."""
        event = threading.Event()
        self._wakers.add(event)
        return event

    def _on_state(self, state: str) -> None:
        """Listener: called from the connection's thread, so it does nothing but note and wake."""
        with self._lock:
            if state == KazooState.CONNECTED:
                self._away_since = None
                self.connected.set()
            else:
                self.connected.clear()
                self._away_since = self._away_since or boot_seconds()
            if state == KazooState.LOST:
                self._term += 1
                self._trusted_until = float("-inf")
        for event in list(self._wakers):
            event.set()

    # -- requests -------------------------------------------------------------------------------

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
            return request(*args, **options).get(timeout=self._timeout_s)
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
                found.append(pending.get(timeout=self._timeout_s))
            except NoNodeError:
                found.append(None)
            except AWAY as error:
                raise self.away(error) from error
        return found

    def children(self, path: str, event: threading.Event | None = None) -> list[str]:
        """Names of the children, sorted; [] when there is no such node.

        `event`, if given, is set at the next change, and whenever the connection changes.
        """
        watch = None if event is None else Watch(event)
        try:
            return sorted(self.call(self.kazoo.get_children_async, path, watch=watch))
        except NoNodeError:
            pass
        # The watch for the node's birth has to be set while it is missing, or it is not needed.
        if event is not None and self.call(self.kazoo.exists_async, path, watch=watch) is not None:
            event.set()
        return []

    def read(self, path: str, event: threading.Event | None = None) -> tuple[bytes, Any] | None:
        """Data and stat of a node, or None; `event` as for `children`."""
        watch = None if event is None else Watch(event)
        try:
            found: tuple[bytes, Any] = self.call(self.kazoo.get_async, path, watch=watch)
        except NoNodeError:
            pass
        else:
            return found
        if event is not None and self.call(self.kazoo.exists_async, path, watch=watch) is not None:
            event.set()
        return None

    def ensure(self, path: str, data: bytes = b"") -> None:
        """Create a persistent node, with its parents, unless it exists."""
        try:
            self.call(self.kazoo.create_async, path, data, makepath=True)
        except NodeExistsError:
            pass

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

    # -- nodes that live as long as this process ---------------------------------------------------

    def keep(self, path: str, make: Callable[[], None]) -> None:
        """Run `make`, now and again in every new session, to create the ephemeral node `path`.

        Raises `CoordinationUnavailable` when ZooKeeper is away; it is then made on its return.
        """
        with self._lock:
            self._kept[path] = make
        try:
            make()
        except CoordinationUnavailable:
            self._kept_term = -1
            self._wake.set()
            raise

    def drop(self, path: str) -> None:
        """No longer keep `path`, and delete it if it is there."""
        with self._lock:
            self._kept.pop(path, None)
        try:
            self.call(self.kazoo.delete_async, path)
        except NoNodeError:
            pass

    def put_ephemeral(self, path: str, data: bytes) -> None:
        """Make `path` an ephemeral node of this session; only for paths of this incarnation.

        An earlier session of the same process may still have it: that one is replaced.
        """
        try:
            self.call(self.kazoo.create_async, path, data, ephemeral=True, makepath=True)
            return
        except NodeExistsError:
            pass
        found = self.read(path)
        if found is not None and self.owns(found[1]):
            self.call(self.kazoo.set_async, path, data)
            return
        if found is not None:
            self.transact(("delete", (path,)), ("create", (path, data, None, True)))
            return
        self.call(self.kazoo.create_async, path, data, ephemeral=True, makepath=True)

    # -- the heartbeat ----------------------------------------------------------------------------

    def _run(self) -> None:
        next_skew = 0.0
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                if self.connected.is_set():
                    self._beat()
                    self._make_kept()
                    if boot_seconds() >= next_skew:
                        self._measure_skew()
                        next_skew = boot_seconds() + SKEW_EVERY_S
                else:
                    self._forget_old_history()
            except (CoordinationUnavailable, KazooException):
                # Nothing to do but to try again: until then nobody trusts the session.
                next_skew = 0.0
            self._wake.wait(self._timeout_s / 8)

    def _beat(self) -> None:
        """One round trip; the session then lives at least its timeout from *before* it."""
        before = boot_seconds()
        term = self._term
        identity = self.kazoo.client_id
        self.call(self.kazoo.exists_async, "/")
        with self._lock:
            if self._term == term and self.kazoo.client_id == identity:
                until = before + self._timeout_s - self._settings.lease_margin_s
                self._trusted_until = max(self._trusted_until, until)
        if self._remember_in is not None and identity is not None:
            remember(self._remember_in, self.hosts, identity)

    def _make_kept(self) -> None:
        term = self._term
        if self._kept_term == term:
            return
        with self._lock:
            makers = list(self._kept.values())
        for make in makers:
            make()
        self._kept_term = term

    def _measure_skew(self) -> None:
        path = self.path("clocks", f"{self.node}~{self.boot}")
        before = time.time()
        try:
            stat = self.call(self.kazoo.set_async, path, b"")
        except NoNodeError:
            self.put_ephemeral(path, b"")
            before = time.time()
            stat = self.call(self.kazoo.set_async, path, b"")
        self.skew_s = (before + time.time()) / 2 - stat.mtime / 1000.0

    def _forget_old_history(self) -> None:
        """Let a rebuilt ensemble in.

        A server refuses a client that has seen a later transaction than it has itself, and one
        with empty data is behind every client: we would knock for ever, and never be told that
        the session is lost. By the time the session must have ended nothing is trusted any more,
        so we may as well come without a history.
        """
        since = self._away_since
        if since is not None and boot_seconds() - since > self._timeout_s:
            self.kazoo.last_zxid = 0


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
