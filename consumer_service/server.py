"""gunicorn around the application: one worker with threads, which is the node.

The arbiter holds the socket and nothing else. A worker that dies takes the arbiter along, so that
whoever started the process sees it end, and decides about a restart; a new process is a new
incarnation, with a journal shard of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.errors import HaltServer
from gunicorn.workers.gthread import ThreadWorker

from consumer_service.app import create_app
from consumer_service.node import Node
from coordination.session import Session
from lakequeue.errors import LakequeueError, MissingDependency, RootUnusable
from lakequeue.parent import die_with_parent
from lakequeue.settings import ConsumerSettings, Settings
from lakequeue.steps import arm
from queue_tables.root import QueueRoot

EXIT_UNUSABLE = Arbiter.WORKER_BOOT_ERROR
"""The root, the port or ZooKeeper is not usable. (gunicorn's 3.)"""
EXIT_WORKER_DIED = 70
_DRAIN_S = 20
SPARE_CONNECTIONS = 512
"""Beyond the threads: with none to spare the health check would starve behind parked polls."""


class Worker(ThreadWorker):  # type: ignore[misc] # gunicorn ships no types
    """A worker that gives its partitions back as soon as it is told to stop."""

    node: Node | None = None
    draining: threading.Thread | None = None

    def handle_exit(self, sig: int, frame: Any) -> None:
        """SIGTERM: no new connection; parked polls are answered, leases and members given up."""
        if Worker.node is not None and Worker.draining is None:
            # A thread: a signal handler must not wait for locks that the main thread may hold.
            Worker.draining = threading.Thread(target=Worker.node.drain, name="drain")
            Worker.draining.start()
        super().handle_exit(sig, frame)


class PortUnusable(RootUnusable):
    """The port is in use, or may not be used: choose another with --port."""

    code = "port_unusable"


def listen(settings: ConsumerSettings) -> socket.socket:
    """Bind the port before anything is started. Raises `PortUnusable`."""
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


def make_node(settings: Settings, name: str) -> Node:
    """Open the root, connect, and put a node together. Raises what `lakequeue.errors` names."""
    if settings.zookeeper is None:
        raise MissingDependency(
            "a consumer-service node needs ZooKeeper",
            hint="give --zookeeper host:port, or let `lakequeue up` start the embedded one",
        )
    root = QueueRoot.open(settings.root)
    session = Session(
        settings.zookeeper, root.queue_id, name, settings.coordination, _remember_in(settings, name)
    )
    session.start()
    return Node(settings, root, session, name)


def _remember_in(settings: Settings, name: str) -> Path | None:
    return None if settings.work_dir is None else settings.work_dir / f"session-{name}.json"


class Server(BaseApplication):  # type: ignore[misc] # gunicorn ships no types
    """The process: settings in, runs until SIGTERM."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._settings = settings
        self._name = name
        self._listener = listen(settings.consumer)
        self.url = "http://{}:{}".format(*self._listener.getsockname()[:2])
        super().__init__()

    def load_config(self) -> None:
        """gunicorn's settings; none comes from a file or the environment."""
        threads = self._settings.consumer.threads
        for name, value in {
            "bind": f"fd://{self._listener.fileno()}",
            "workers": 1,
            "worker_class": "consumer_service.server.Worker",
            "threads": threads,
            "worker_connections": threads + SPARE_CONNECTIONS,
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
        """In the worker: become a node, and say so."""
        try:
            node = make_node(self._settings, self._name)
        except LakequeueError as e:
            print_event("failed", **e.to_problem())
            sys.stderr.write(f"{e}\n")
            sys.stderr.flush()
            # Not sys.exit: the arbiter must see the code, and no hook has anything to close.
            os._exit(EXIT_UNUSABLE)
        Worker.node = node
        app = create_app(node)
        arm(self._settings.crash_at)
        node.start(self.url)
        print_event(
            "ready", url=self.url, node=self._name, shard=node.journal.shard, pid=os.getpid()
        )
        return app

    def _post_fork(self, arbiter: Any, _worker: Any) -> None:
        die_with_parent(arbiter.pid)

    def _worker_exit(self, _arbiter: Any, _worker: Any) -> None:
        if Worker.node is not None:
            if Worker.draining is None:
                Worker.node.drain()
            else:
                Worker.draining.join(_DRAIN_S)
            print_event("stopped", node=self._name)

    def _child_exit(self, arbiter: Any, worker: Any) -> None:
        if arbiter.LISTENERS:  # empty once the arbiter itself is stopping
            raise HaltServer(f"worker {worker.pid} ended", EXIT_WORKER_DIED)


def print_event(event: str, **facts: Any) -> None:
    """One JSON line on stdout, for whoever started this process."""
    # Whoever started us may have gone already, or closed its end.
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
        sys.stdout.flush()


def run(settings: Settings, name: str, parent: int | None) -> None:
    """Serve until SIGTERM or SIGINT. `parent`: end when this process (or 0: the parent) does."""
    if parent is not None:
        die_with_parent(parent or None)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    Server(settings, name).run()
