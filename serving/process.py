"""A service as one process: its port, its start and end, and the front that carries its HTTP.

Whoever started the process sees it end, and decides about a restart (`lakequeue up` restarts with
back-off); a new process is a new incarnation, with a shard of its own.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakequeue.errors import LakequeueError, PortUnusable
from lakequeue.processes.parent import die_with_parent
from lakequeue.settings import FrontSettings
from lakequeue.tracing import export
from serving.damage import started
from serving.front.front import Front
from serving.front.hub import Gate
from serving.front.limits.budget import Budget
from serving.front.routes import Way
from serving.front.server import BACKLOG, Server
from serving.tls import Tls

EXIT_UNUSABLE = 3
"""The root, the port or ZooKeeper is not usable: starting again will not help."""
DRAIN_S = 20
_EVERY_ADDRESS = ("0.0.0.0", "::")
_BODIES = 64 << 20
_YOUNG_OBJECTS = 10_000


@dataclass(frozen=True, slots=True)
class Served:
    """A node that serves, as its process sees it."""

    app: Any
    """The WSGI application."""
    facts: Mapping[str, Any]
    """Told in the `ready` event."""
    on_term: Callable[[], None]
    """SIGTERM has come; runs in the event loop, so it must not wait for anything."""
    close: Callable[[], None]
    """No request runs any more; returns within `DRAIN_S`."""
    ways: Sequence[Way]
    """How calls are answered; the last takes what none before it does."""
    bodies: Budget = field(default_factory=lambda: Budget(_BODIES))
    """What bodies take of memory, from their first byte on."""
    gate: Gate | None = None
    """Decides who comes in; None: everybody does."""
    on_front: Callable[[Front], None] = lambda _: None
    """The front has begun to take requests."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a process listens, and how it carries requests."""

    host: str
    port: int
    front: FrontSettings
    tls: Tls | None = None
    url: str | None = None
    """By which others reach it, if they do not by host and port."""


def reached_at(host: str, port: int, scheme: str = "http") -> str:
    """The URL of a listener: one on every address is reached by the name of this machine."""
    if host in _EVERY_ADDRESS:
        host = socket.gethostname()
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def listen(host: str, port: int) -> socket.socket:
    """Bind the port before anything is started. Raises `PortUnusable`, naming who to ask."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as e:
        listener.close()
        raise PortUnusable(
            f"cannot listen on {host}:{port}: {e.strerror}",
            hint=f"see `ss -ltnp 'sport = :{port}'`, or take another with --port (of "
            "`lakequeue up`: --ingest-port, --consumer-port, --console-port, --sqs-port; 0: any)",
        ) from e
    listener.listen(BACKLOG)
    return listener


def print_event(event: str, **facts: Any) -> None:
    """One JSON line on stdout, for whoever started this process."""
    # Whoever started us may have gone already, or closed its end; or its disk is full.
    with contextlib.suppress(OSError):
        sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
        sys.stdout.flush()


def serve(
    node: str,
    at: Listening,
    start: Callable[[str], Served],
    parent: int | None = None,
    service: str | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT. `parent`: end when this process (or 0: the parent) does.

    `service`: what the node is one of, as traces name it; as the node, if it is not said.

    `start` makes the node, given the URL; it raises what `lakequeue.errors` names. While it raises
    that a table is damaged the process waits, alive and not ready (`serving.damage`).
    """
    if parent is not None:
        die_with_parent(parent or None)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end_early)
    exporting = export.start(service or node, node)
    listener = listen(at.host, at.port)
    scheme = "http" if at.tls is None else "https"
    host, port = listener.getsockname()[:2]
    url = at.url or reached_at(host, port, scheme)
    try:
        served = started(
            lambda: start(url),
            listener,
            node,
            lambda damage: print_event("waits", url=url, node=node, **damage.to_problem()),
            at.tls,
        )
    except LakequeueError as e:
        print_event("failed", **e.to_problem())
        sys.stderr.write(f"{e}\n")
        sys.stderr.flush()
        # Not sys.exit: threads of what did start must not hold up the end.
        os._exit(EXIT_UNUSABLE)

    def ready(front: Front) -> None:
        _collect_less()
        served.on_front(front)
        print_event("ready", url=url, node=node, pid=os.getpid(), **served.facts)

    Server(listener, DRAIN_S).run(
        served.app, served.ways, at.front, served.bodies, ready, served.on_term, served.gate, at.tls
    )
    served.close()
    exporting.stop()
    print_event("stopped", node=node)


def _collect_less() -> None:
    """Have the garbage collector pass over what lives as long as the process, and come less often.

    A request makes hardly any circles, and looking for them took 7 % of a send.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)


def _end_early(_number: int, _frame: Any) -> None:
    """SIGTERM before the node serves: nothing was promised to anybody yet."""
    os._exit(0)
