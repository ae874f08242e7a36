"""A session with ZooKeeper, and how long it may be trusted.

What a holder does in each state:

- trusted (a round trip succeeded within the session timeout, less the margin): everybody goes on.
- away (`connected` is not set, or `trusted_until` has passed): the session may have ended.
  Consumption stops at once. The order and offsets leaders go on: what makes them safe is their
  epoch in the table. Ingest needs no ZooKeeper.
- lost (`term` has risen): the session has ended, and its ephemeral nodes are gone. Leases are
  void and have to be taken anew; a leader no longer leads; registrations and members are made
  again by themselves in the new session.

`trusted_until` counts from *before* the last successful round trip: the server restarts a
session's timeout when it hears from it, which is later. The margin covers what a server that is
cut off from its ensemble may not have passed on: keep it above the ensemble's tickTime / 2.

The client library calls listeners and watches from threads that must not wait for ZooKeeper, so
every one of ours only sets events; the threads that wait on these do the work.
"""

from __future__ import annotations

import threading
import uuid
import weakref
from pathlib import Path
from typing import Any

import structlog
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry

from coordination.zookeeper.closing import close_nodes
from coordination.zookeeper.credentials import client_options
from coordination.zookeeper.ephemeral_nodes import EphemeralNodes
from coordination.zookeeper.session_reaper import CLIENT_LOG, close_dead_session, forget, remember
from lakequeue.clock import boot_seconds, wall_micros
from lakequeue.errors import (
    CoordinationUnavailable,
    InvalidRequest,
    LakequeueError,
)
from lakequeue.records import checked_name
from lakequeue.settings import CoordinationSettings

log = structlog.get_logger(__name__)

SKEW_EVERY_S = 10.0
BEATS = 8
"""Round trips in one session timeout."""
_SLOW_S = 2.0
"""Of an answer that takes longer, the time in it may be off by as much as matters."""
_ATTEMPTS = 5
# The library's default waits up to a minute between attempts: longer than any session lasts.
_RECONNECT = {"max_tries": -1, "delay": 0.05, "max_delay": 0.3}


def repeated(hosts: str) -> str:
    """The same hosts, each named so often that there are `_ATTEMPTS` of them or more.

    The library waits for the answer to a connect request for the session timeout divided by the
    number of hosts. A server that is just starting now and then accepts a connection and never
    answers on it (seen in 2 of 17 restarts): with one host in the list the session would spend
    its whole life waiting there.
    """
    servers, slash, chroot = hosts.partition("/")
    names = servers.split(",")
    return ",".join(names * -(-_ATTEMPTS // len(names))) + slash + chroot


class Session(EphemeralNodes):
    """One process's connection to the ensemble; its threads share it.

    All nodes of the queue stand under `/lakequeue/<queue_id>`; `path()` makes their paths.
    `remember_in` names a local file (one per node name) by which the next process of that name,
    or the supervisor, ends this session at once should this process die: see `session_reaper`.
    """

    def __init__(
        self,
        hosts: str,
        queue_id: str,
        node: str,
        settings: CoordinationSettings | None = None,
        remember_in: Path | None = None,
    ) -> None:
        settings = settings or CoordinationSettings()
        if settings.lease_margin_s * 2 > settings.session_timeout_s:
            raise InvalidRequest(
                f"lease_margin_s {settings.lease_margin_s:g} leaves too little of "
                f"session_timeout_s {settings.session_timeout_s:g}",
                hint="the margin may be at most half of the session timeout",
            )
        super().__init__(hosts, queue_id, settings.session_timeout_s)
        self.node = checked_name(node, "node")
        self.boot = uuid.uuid4().hex[:12]
        """This incarnation of the node: part of every ephemeral node's name or content."""
        self._zookeeper_clock_s: float | None = None
        """ZooKeeper's clock less `boot_seconds()`; None before it was asked."""
        self._settings = settings
        self._margin_s = settings.lease_margin_s
        self._remember_in = remember_in
        self._lock = threading.Lock()
        self._term = 0
        self._trusted_until = float("-inf")
        self._doubted = True
        """It was not trusted since the last beat, perhaps for a moment only."""
        self._regained = 0
        self._away_since = boot_seconds()
        self._wakers: weakref.WeakSet[threading.Event] = weakref.WeakSet()
        self._stopping = threading.Event()
        self._wake = self.waker()
        self._thread = threading.Thread(target=self._run, name="zk-heartbeat", daemon=True)
        self.kazoo = self._make_client()

    def _make_client(self) -> KazooClient:
        client = KazooClient(
            hosts=repeated(self.hosts),
            timeout=self.timeout_s,
            connection_retry=KazooRetry(**_RECONNECT),
            logger=CLIENT_LOG,
            **client_options(self._settings),
        )
        client.add_listener(self._on_state)
        # The library keeps the timeout that the server granted to itself, and a session must not
        # be trusted for longer than that. What it does return is two thirds of it.
        connection = client._connection  # noqa: SLF001 - there is no public way to it
        connect = connection._connect  # noqa: SLF001

        def connect_and_note(*args: Any) -> tuple[float, float]:
            read_timeout_ms, connect_timeout_ms = connect(*args)
            self.timeout_s = read_timeout_ms * 1.5 / 1000.0
            return read_timeout_ms, connect_timeout_ms

        connection._connect = connect_and_note  # noqa: SLF001
        return client

    # -- life -----------------------------------------------------------------------------------

    def start(self, timeout_s: float = 30.0) -> None:
        """Connect. Raises `CoordinationUnavailable` when nothing answers in `timeout_s`."""
        if self._remember_in is not None:
            close_dead_session(self._remember_in, settings=self._settings)
        deadline = boot_seconds() + timeout_s
        try:
            self.kazoo.start(timeout=timeout_s)
            # The library returns before it tells its listeners: to a call that came first
            # ZooKeeper would seem to be away.
            if not self.connected.wait(max(0.0, deadline - boot_seconds())):
                raise KazooTimeoutError
        except KazooTimeoutError:
            self.kazoo.stop()
            self.kazoo.close()
            raise CoordinationUnavailable(
                f"ZooKeeper at {self.hosts} did not answer in {timeout_s:g} s",
                hint="start it, or give another address with --zookeeper host:port,…",
            ) from None
        if self.kazoo.default_acl:
            close_nodes(self)
        self._beat()
        self._measure_skew()
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
    def incarnation(self) -> int:
        """Rises when the session is lost: what was held in an earlier term is void."""
        return self._term

    @property
    def trusted_until(self) -> float:
        """In seconds of `boot_seconds()`: the session lives at least until then."""
        return self._trusted_until

    def trusted(self) -> bool:
        """Whether what this session holds is certainly still held."""
        return self.connected.is_set() and boot_seconds() < self._trusted_until

    @property
    def regained(self) -> int:
        """How often it came to be trusted after it was not; wakers are set then, too."""
        return self._regained

    @property
    def skew_s(self) -> float:
        """This machine's wall clock less ZooKeeper's, in seconds; 0 before it was measured.

        That one is asked every 10 s. A jump of ours is seen at once: the time since boot has none.
        """
        if self._zookeeper_clock_s is None:
            return 0.0
        return wall_micros() / 1e6 - boot_seconds() - self._zookeeper_clock_s

    def waker(self) -> threading.Event:
        """An event that is set whenever the connection's state changes, or trust comes back.

        Its holder clears it, and may have watches set it too.
        """
        event = threading.Event()
        with self._lock:
            self._wakers.add(event)
        return event

    def _on_state(self, state: str) -> None:
        """Listener: called from the connection's thread, so it notes, wakes, and does no more."""
        with self._lock:
            if state == KazooState.CONNECTED:
                self.connected.set()
            else:
                if self.connected.is_set():
                    self._away_since = boot_seconds()
                self.connected.clear()
                self._doubted = True
            if state == KazooState.LOST:
                self._term += 1
                self._trusted_until = float("-inf")
                self.stale.set()
            wakers = list(self._wakers)
        for event in wakers:
            event.set()

    # -- the heartbeat ----------------------------------------------------------------------------

    def _run(self) -> None:
        next_skew = boot_seconds() + SKEW_EVERY_S
        away = False
        while not self._stopping.is_set():
            self._wake.clear()
            if away is self.connected.is_set():
                away = not away
                say = log.warning if away else log.info
                say("zookeeper.disconnected" if away else "zookeeper.reconnected", node=self.node)
            try:
                if not self.connected.is_set():
                    self._forget_old_history()
                else:
                    self._beat()
                    self.renew_ephemeral()
                    if boot_seconds() >= next_skew or self._zookeeper_clock_s is None:
                        next_skew = boot_seconds() + SKEW_EVERY_S
                        self._measure_skew()
            except (LakequeueError, KazooException, OSError) as error:
                # Nothing to do but to try again; until a beat succeeds nobody trusts the session.
                log.warning("zookeeper.heartbeat_failed", node=self.node, error=str(error))
            self._wake.wait(self.timeout_s / BEATS)

    def _beat(self) -> None:
        """One round trip: the session then lives at least its timeout from *before* it."""
        before = boot_seconds()
        term = self._term
        identity = self.kazoo.client_id
        self.call(self.kazoo.exists_async, "/")
        wakers: list[threading.Event] = []
        with self._lock:
            if self._term == term and self.kazoo.client_id == identity:
                self._doubted |= boot_seconds() >= self._trusted_until
                until = before + self.timeout_s - self._margin_s
                self._trusted_until = max(self._trusted_until, until)
                if self._doubted and self.trusted():
                    self._doubted = False
                    self._regained += 1
                    wakers = list(self._wakers)
        for event in wakers:
            event.set()
        if self._remember_in is not None and identity is not None:
            remember(self._remember_in, self.hosts, identity)

    def _measure_skew(self) -> None:
        path = self.path("clocks", f"{self.node}~{self.boot}")
        if self.read(path) is None:
            self.put_ephemeral(path, b"")
        before = boot_seconds()
        try:
            stat = self.call(self.kazoo.set_async, path, b"")
        except NoNodeError:
            # The session was replaced in between; measured again soon.
            return
        took = boot_seconds() - before
        if took < _SLOW_S:
            # A slow answer says little of the time, and a paused process is no clock that is off.
            self._zookeeper_clock_s = stat.mtime / 1000.0 - (before + took / 2)

    def _forget_old_history(self) -> None:
        """Let a rebuilt ensemble in.

        A server refuses a client that has seen a later transaction than it has itself, and one
        with empty data is behind every client: we would knock for ever, and never be told that
        the session is lost. By the time the session must have ended nothing is trusted any more,
        so we may as well come without a history.
        """
        if boot_seconds() - self._away_since > self.timeout_s:
            self.kazoo.last_zxid = 0
