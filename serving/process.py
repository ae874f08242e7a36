"""gunicorn around an application: one worker with threads, which is the node.

The arbiter holds the socket and nothing else. A worker that dies takes the arbiter along, so that
whoever started the process sees it end, and decides about a restart (`lakequeue up` restarts with
back-off); a new process is a new incarnation, with a shard of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.errors import HaltServer
from gunicorn.workers.gthread import ThreadWorker

from lakequeue.errors import LakequeueError, RootUnusable
from lakequeue.parent import die_with_parent

EXIT_UNUSABLE = Arbiter.WORKER_BOOT_ERROR
"""The root, the port or ZooKeeper is not usable: starting again will not help. (gunicorn's 3.)"""
EXIT_WORKER_DIED = 70
DRAIN_S = 20
_EVERY_ADDRESS = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class Served:
    """A node that serves, as its process sees it."""

    app: Any
    """The WSGI application."""
    facts: Mapping[str, Any]
    """Told in the `ready` event."""
    on_term: Callable[[], None]
    """SIGTERM has come; runs in the signal handler, so it must not wait for anything."""
    close: Callable[[], None]
    """No request runs any more; returns within `DRAIN_S`."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a process listens, and how many it serves."""

    host: str
    port: int
    threads: int
    connections: int
    url: str | None = None
    """By which others reach it, if they do not by host and port."""


class PortUnusable(RootUnusable):
    """The port is in use, or may not be used: choose another with --port."""

    code = "port_unusable"


class Worker(ThreadWorker):  # type: ignore[misc] # gunicorn ships no types
    """A worker that tells its node as soon as it is told to stop."""

    served: Served | None = None

    def handle_exit(self, sig: int, frame: Any) -> None:
        """SIGTERM: no new connection, waiting requests answer now, accepted ones are finished."""
        if Worker.served is not None:
            Worker.served.on_term()
        super().handle_exit(sig, frame)


class Process(BaseApplication):  # type: ignore[misc] # gunicorn ships no types
    """Serves `node` at a port until SIGTERM or SIGINT.

    `start` makes the node, in the worker, given the URL; it raises what `lakequeue.errors` names.
    """

    def __init__(self, node: str, at: Listening, start: Callable[[str], Served]) -> None:
        self._node = node
        self._at = at
        self._start = start
        self._listener = listen(at.host, at.port)
        self.url = at.url or reached_at(*self._listener.getsockname()[:2])
        super().__init__()

    def load_config(self) -> None:
        """gunicorn's settings; none comes from a file or the environment."""
        for name, value in {
            "bind": f"fd://{self._listener.fileno()}",
            "workers": 1,
            "worker_class": "serving.process.Worker",
            "threads": self._at.threads,
            "worker_connections": self._at.connections,
            "keepalive": 75,
            "timeout": 120,
            "graceful_timeout": DRAIN_S,
            "loglevel": "warning",
            "control_socket_disable": True,
            "post_fork": self._post_fork,
            "worker_exit": self._worker_exit,
            "child_exit": self._child_exit,
        }.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        """In the worker: become a node, and say so."""
        try:
            served = self._start(self.url)
        except LakequeueError as e:
            print_event("failed", **e.to_problem())
            sys.stderr.write(f"{e}\n")
            sys.stderr.flush()
            # Not sys.exit: the arbiter must see the code, and no hook has anything to close.
            os._exit(EXIT_UNUSABLE)
        Worker.served = served
        print_event("ready", url=self.url, node=self._node, pid=os.getpid(), **served.facts)
        return served.app

    def _post_fork(self, arbiter: Any, _worker: Any) -> None:
        die_with_parent(arbiter.pid)

    def _worker_exit(self, _arbiter: Any, _worker: Any) -> None:
        if Worker.served is not None:
            Worker.served.close()
            print_event("stopped", node=self._node)

    def _child_exit(self, arbiter: Any, worker: Any) -> None:
        if arbiter.LISTENERS:  # empty once the arbiter itself is stopping
            raise HaltServer(f"worker {worker.pid} ended", EXIT_WORKER_DIED)


def reached_at(host: str, port: int) -> str:
    """The URL of a listener: one on every address is reached by the name of this machine."""
    if host in _EVERY_ADDRESS:
        host = socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


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
            hint=f"see `ss -ltnp 'sport = :{port}'`, or take another with --port",
        ) from e
    listener.listen(1024)
    return listener


def print_event(event: str, **facts: Any) -> None:
    """One JSON line on stdout, for whoever started this process."""
    # Whoever started us may have gone already, or closed its end.
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
        sys.stdout.flush()


def serve(
    node: str, at: Listening, start: Callable[[str], Served], parent: int | None = None
) -> None:
    """Serve until SIGTERM or SIGINT. `parent`: end when this process (or 0: the parent) does."""
    if parent is not None:
        die_with_parent(parent or None)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    Process(node, at, start).run()
