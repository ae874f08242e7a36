"""gunicorn around the application: one worker with threads, which owns the shard.

The arbiter holds the socket and nothing else. A worker that dies takes the arbiter along, so that
whoever started the process sees it end, and decides about a restart (`lakequeue up` restarts with
back-off); a new process is a new incarnation, with a shard of its own.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.errors import HaltServer
from gunicorn.workers.gthread import ThreadWorker

from ingest.app import create_app
from ingest.lean import let_arrow_go_without_pandas
from ingest.node import IngestNode
from lakequeue.errors import LakequeueError, RootUnusable
from lakequeue.parent import die_with_parent
from lakequeue.settings import IngestSettings, Settings
from lakequeue.steps import arm

EXIT_UNUSABLE = Arbiter.WORKER_BOOT_ERROR
"""The root or the port is not usable: starting again will not help. (gunicorn's 3.)"""
EXIT_WORKER_DIED = 70
_DRAIN_S = 20


class Worker(ThreadWorker):  # type: ignore[misc] # gunicorn ships no types
    """A worker that says that it is draining as soon as it is told to stop."""

    node: IngestNode | None = None

    def handle_exit(self, sig: int, frame: Any) -> None:
        """SIGTERM: no new connection, waiting requests answer now, accepted ones are committed."""
        if Worker.node is not None:
            Worker.node.stopping.set()
        super().handle_exit(sig, frame)


def listen(settings: IngestSettings) -> socket.socket:
    """Bind the port before anything is started. Raises `RootUnusable` naming who to ask."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as e:
        listener.close()
        raise PortUnusable(
            f"cannot listen on {settings.host}:{settings.port}: {e.strerror}",
            hint=f"see `ss -ltnp 'sport = :{settings.port}'`, or take another with --port",
        ) from e
    listener.listen(1024)
    return listener


class PortUnusable(RootUnusable):
    """The port is in use, or may not be used: choose another with --port."""

    code = "port_unusable"


class Server(BaseApplication):  # type: ignore[misc] # gunicorn ships no types
    """The process: settings in, runs until SIGTERM."""

    def __init__(self, settings: Settings, node: str) -> None:
        self._settings = settings
        self._node = node
        self._listener = listen(settings.ingest)
        self.url = "http://{}:{}".format(*self._listener.getsockname()[:2])
        super().__init__()

    def load_config(self) -> None:
        """gunicorn's settings; none comes from a file or the environment."""
        threads = self._settings.ingest.threads
        for name, value in {
            "bind": f"fd://{self._listener.fileno()}",
            "workers": 1,
            "worker_class": "ingest.server.Worker",
            "threads": threads,
            # With no connections to spare beside the threads the health check would starve.
            "worker_connections": threads * 4 + 100,
            "keepalive": 75,
            "timeout": 120,
            "graceful_timeout": _DRAIN_S,
            "loglevel": "warning",
            "control_socket_disable": True,
            "post_fork": self._post_fork,
            "worker_exit": self._worker_exit,
            "child_exit": self._child_exit,
        }.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        """In the worker: open the root and a shard, and say that we are ready."""
        let_arrow_go_without_pandas()
        try:
            node = IngestNode(self._settings, self._node, self.url)
        except LakequeueError as e:
            print_event("failed", **e.to_problem())
            sys.stderr.write(f"{e}\n")
            sys.stderr.flush()
            # Not sys.exit: the arbiter must see the code, and no hook has anything to close.
            os._exit(EXIT_UNUSABLE)
        Worker.node = node
        arm(self._settings.crash_at)
        print_event(
            "ready", url=self.url, node=self._node, shard=node.appender.shard, pid=os.getpid()
        )
        return create_app(node)

    def _post_fork(self, arbiter: Any, _worker: Any) -> None:
        die_with_parent(arbiter.pid)

    def _worker_exit(self, _arbiter: Any, _worker: Any) -> None:
        if Worker.node is not None:
            Worker.node.close(_DRAIN_S)
            print_event("stopped", node=self._node)

    def _child_exit(self, arbiter: Any, worker: Any) -> None:
        if arbiter.LISTENERS:  # empty once the arbiter itself is stopping
            raise HaltServer(f"worker {worker.pid} ended", EXIT_WORKER_DIED)


def print_event(event: str, **facts: Any) -> None:
    """One JSON line on stdout, for whoever started this process."""
    sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
    sys.stdout.flush()


def run(settings: Settings, node: str, parent: int | None) -> None:
    """Serve until SIGTERM or SIGINT. `parent`: end when this process (or 0: the parent) does."""
    if parent is not None:
        die_with_parent(parent or None)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    Server(settings, node).run()
