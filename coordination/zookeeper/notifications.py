"""Notifications: they wake, and say nothing that may be relied on.

A notification is a node with the newest version of a table. Ringing never waits: notifications are
coalesced, and one thread sends the newest at most once per `ring_interval_ms`. Hearing never waits
for ZooKeeper either. Whatever a notification says, the truth is read from the tables; without
notifications (ZooKeeper away) a listener simply sleeps to the end of its own timeout.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from kazoo.exceptions import KazooException, NoNodeError

from coordination.zookeeper.session import Session
from lakequeue.errors import CoordinationUnavailable

NAMES = ("inbox", "log", "journal", "topics")


class Notifier:
    """The ringing side; several processes may ring one notification."""

    def __init__(self, session: Session, name: str, ring_interval_ms: float = 20.0) -> None:
        self._session = session
        self._path = session.path("bells", name)
        self._interval_s = ring_interval_ms / 1000.0
        self._version = 0
        self._pending = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"notify-{name}", daemon=True)

    def start(self) -> Self:
        """Begin, in a thread of its own."""
        self._thread.start()
        return self

    def notify(self, version: int) -> None:
        """Ring with the newest version; returns at once, whatever ZooKeeper does."""
        self._version = version
        self._pending.set()

    def close(self) -> None:
        """Stop ringing; a ring that has not been sent is dropped."""
        self._closing.set()
        self._pending.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._pending.wait()
            if self._closing.is_set():
                return
            self._pending.clear()
            try:
                self._send(str(self._version).encode())
            except (CoordinationUnavailable, KazooException):
                # Its hearers poll slowly until then; it rings when ZooKeeper is back.
                self._pending.set()
                self._closing.wait(self._session.timeout_s / 8)
            self._closing.wait(self._interval_s)

    def _send(self, data: bytes) -> None:
        try:
            self._session.call(self._session.kazoo.set_async, self._path, data)
        except NoNodeError:
            self._session.ensure(self._path, data)


class NotificationListener:
    """The hearing side: `wait` returns True when a notification has arrived since the last
    `wait`.
    """

    def __init__(self, session: Session, name: str, event: threading.Event | None = None) -> None:
        """`event`, if given, is set at each ring, for one that waits for several things."""
        self._session = session
        self._path = session.path("bells", name)
        self._closing = threading.Event()
        self._changed = session.waker()
        self._changed.set()
        self._rung = event or threading.Event()
        self._seen = -1
        self.version = 0
        """The newest version that was sent."""
        self._thread = threading.Thread(target=self._run, name=f"hear-{name}", daemon=True)

    def start(self) -> Self:
        """Begin, in a thread of its own."""
        self._thread.start()
        return self

    def wait(self, timeout_s: float) -> bool:
        """Wait for a ring; False after `timeout_s`. Never waits for ZooKeeper itself."""
        rung = self._rung.wait(timeout_s)
        self._rung.clear()
        return rung

    def wake(self) -> None:
        """Let a `wait` return now, as if a notification had arrived (to stop its thread, say)."""
        self._rung.set()

    def end(self) -> None:
        """Hear nothing any longer; does not wait."""
        self._closing.set()
        self._changed.set()
        self._rung.set()

    def close(self) -> None:
        """Stop listening."""
        self.end()
        if self._thread.is_alive():
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._changed.wait()
            self._changed.clear()
            if self._closing.is_set() or not self._session.connected.is_set():
                continue
            try:
                found = self._session.read(self._path, self._changed)
            except (CoordinationUnavailable, KazooException):
                # The watch may not be set: look again soon, without a storm of requests.
                self._closing.wait(self._session.timeout_s / 8)
                self._changed.set()
                continue
            # After a loss of the connection a ring may have been missed: then it is heard here.
            rung_at = found[1].mzxid if found is not None else 0
            if rung_at != self._seen:
                self._seen = rung_at
                self.version = int(found[0] or b"0") if found is not None else 0
                self._rung.set()
