"""The event loop of a node: listens, looks at deadlines, ends in order."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import cast

import structlog

from lakequeue.settings import FrontSettings
from serving.front import wsgi
from serving.front.connection import Connection
from serving.front.front import Front
from serving.front.hub import Gate, Hub, Limits
from serving.front.limits.budget import Budget
from serving.front.limits.deadlines import SLOT_S
from serving.front.routes import Way
from serving.tls import HANDSHAKE_S, Tls

log = structlog.get_logger(__name__)

BACKLOG = 4_096
_AT_ONCE = 8
"""Connections that are taken before others have a turn: each takes 100 to 200 µs."""
_OWN_FILES = 512
"""Open files that are not connections: storage, ZooKeeper, logs."""
_UNSENT_BYTES = 128 << 10
"""What the kernel keeps of an answer that is not sent yet; the rest is ours, and counted."""
_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""A client whose machine is gone is noticed within a minute, though it never says so."""


def limits_of(settings: FrontSettings) -> Limits:
    """The bounds of connections, with as many files as the system lets us have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.max_connections + _OWN_FILES
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    possible = settings.max_connections
    if soft != resource.RLIM_INFINITY:
        possible = min(possible, max(16, soft - _OWN_FILES))
    if possible < settings.max_connections:
        log.info("connections.limited", wanted=settings.max_connections, possible=possible)
    return Limits(
        possible,
        settings.max_connections_per_address,
        settings.header_s,
        settings.idle_s,
        settings.body_grace_s,
        settings.body_bytes_per_s,
        settings.write_s,
        settings.write_bytes_per_s,
    )


def prepare(listener: socket.socket) -> None:
    """What connections inherit from their listener."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    options = _ALIVE | {"TCP_NOTSENT_LOWAT": _UNSENT_BYTES}
    for name, value in options.items():
        number = getattr(socket, name, None)
        if number is not None:
            with contextlib.suppress(OSError):
                listener.setsockopt(socket.IPPROTO_TCP, number, value)
    listener.setblocking(False)


class Server:
    """Serves at a listener until SIGTERM or SIGINT, and then until nothing is under way."""

    def __init__(self, listener: socket.socket, drain_s: float) -> None:
        self._listener = listener
        self._drain_s = drain_s
        prepare(listener)

    def run(
        self,
        app: wsgi.App,
        ways: Sequence[Way],
        settings: FrontSettings,
        bodies: Budget,
        ready: Callable[[Front], None],
        on_term: Callable[[], None],
        gate: Gate | None = None,
        tls: Tls | None = None,
    ) -> None:
        """Blocks. `ready` is called when requests are taken, `on_term` when no more are."""
        asyncio.run(self._run(app, ways, limits_of(settings), bodies, ready, on_term, gate, tls))

    async def _run(
        self,
        app: wsgi.App,
        ways: Sequence[Way],
        limits: Limits,
        bodies: Budget,
        ready: Callable[[Front], None],
        on_term: Callable[[], None],
        gate: Gate | None,
        tls: Tls | None,
    ) -> None:
        loop = asyncio.get_running_loop()
        host, port = self._listener.getsockname()[:2]
        front = Front(app, ways, limits, bodies, (str(host), int(port)), loop, gate)
        stopping, rested = asyncio.Event(), asyncio.Event()
        front.rested = rested.set
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        async with listening(front, self._listener, tls) as server:
            ready(front)
            await stopping.wait()
            server.close()
            on_term()
            front.drain()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(rested.wait(), self._drain_s)


class Encrypted(SSLProtocol):
    """TLS below a connection, which counts from when its client has come, not from when it has
    shown that it can speak TLS: a handshake takes more memory than anything that follows.
    """

    max_size = 16 << 10
    """That of a record of TLS. asyncio has 256 KiB, for each connection and for good."""

    def __init__(self, hub: Hub, connection: Connection, context: ssl.SSLContext) -> None:
        super().__init__(
            hub.loop,
            connection,
            context,
            None,  # type: ignore[arg-type]  # nobody waits for the handshake
            server_side=True,
            ssl_handshake_timeout=round(HANDSHAKE_S),
        )
        self._hub = hub
        self._below = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio`."""
        self._below.came(transport)
        self._plain = cast(asyncio.Transport, transport)
        # So that `resume_writing` says that everything has left.
        self._plain.set_write_buffer_limits(high=0)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """See `asyncio`. The connection hears of it only if its handshake was over."""
        super().connection_lost(exc)
        self._hub.closed(self._below)

    def resume_writing(self) -> None:
        """See `asyncio`."""
        super().resume_writing()
        if self._below.made and not self._get_write_buffer_size():
            self._below.resume_writing()

    def _control_app_writing(self) -> None:
        """The connection asks how much is left, and hears when all has left."""

    def _get_write_buffer_size(self) -> int:
        """With what is encrypted: asyncio counts what is not, and passes all on at once."""
        own: int = super()._get_write_buffer_size()  # type: ignore[misc]  # not in its stubs
        return own + self._plain.get_write_buffer_size()


def _encrypted(front: Front, tls: Tls) -> Encrypted:
    """A client comes that is to speak TLS, with the newest certificate."""
    return Encrypted(front, front.connection(), tls.context)


@contextlib.asynccontextmanager
async def listening(
    front: Front, listener: socket.socket, tls: Tls | None = None
) -> AsyncIterator[asyncio.Server]:
    """Take connections and look at deadlines; at the end no connection is left."""
    server = await front.loop.create_server(
        front.connection if tls is None else partial(_encrypted, front, tls),
        sock=listener,
        backlog=_AT_ONCE,
    )
    # The loop takes as many at once as its backlog says; the system may keep more.
    listener.listen(BACKLOG)
    ticking = asyncio.create_task(_tick(front, tls))
    try:
        yield server
    finally:
        server.close()
        ticking.cancel()
        for connection in [*front.connections, *front.turned_away]:
            connection.drop()


async def _tick(front: Front, tls: Tls | None) -> None:
    while True:
        await asyncio.sleep(SLOT_S)
        try:
            front.tick()
            if tls is not None:
                tls.look()
        except Exception:
            # Without it no deadline would hold any more.
            log.exception("front.tick_failed")
