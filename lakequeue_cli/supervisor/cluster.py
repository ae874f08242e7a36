"""The whole queue on this machine, as one object: `lakequeue up`, the demo and the tests use it.

    with Cluster(root) as cluster:
        cluster.wait_ready()
        cluster.kill("driver-1")          # as a power cut would; it is started again
        cluster.wait_ready()

All children are started by one thread, which lives as long as they do: the kernel kills a child
when the thread that started it ends, so none is left behind when this process gets SIGKILL.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

from lakequeue.errors import InvalidRequest, LakequeueError, PortInUse
from lakequeue.processes import programs
from lakequeue.processes.folders import local_root
from lakequeue.processes.jars import cached_jars, jar_paths
from lakequeue.processes.java import find_java
from lakequeue.settings import CoordinationSettings
from lakequeue_cli.supervisor.child import Child
from lakequeue_cli.supervisor.dead_sessions import close_soon
from lakequeue_cli.supervisor.plan import ChildSpec, Layout, Place, Role, ZooKeeperPorts
from lakequeue_cli.supervisor.preflight import (
    RootLock,
    await_free_port,
    check_answers,
    console_place,
    default_work_dir,
    free_port,
    free_ports,
    make_work_dir,
    take_over_coordination,
    zookeeper_password,
)
from lakequeue_cli.supervisor.watch import Watch
from queue_tables.root import QueueRoot
from queue_tables.schema.formats import advice_of

READY_S = 300.0
Report = Callable[[str, str], None]
"""Called with a child's name and what happened to it, from the supervising thread."""


def _silent(_name: str, _what: str) -> None:
    return


@dataclass(frozen=True)
class ClusterOptions:
    """What is run where. A port of 0 takes a free one, which then stays over restarts."""

    root: str
    zookeeper: str | None = None
    host: str = "127.0.0.1"
    ingest_port: int = 0
    consumer_port: int = 0
    ingest_nodes: int = 1
    consumer_nodes: int = 1
    drivers: int = 1
    zookeepers: int = 1
    """Servers of our own, where `zookeeper` names no ensemble: 1, or an odd number."""
    close_dead_sessions: bool = True
    """End the session of a child that died at once; False: as if it ran on another machine, where
    the others learn of its death by the session timeout."""
    console: tuple[str, int] | None = None
    """(host, port) of the console; None: there is none."""
    console_port_may_change: bool = False
    """If the port is in use, a free one is taken."""
    sqs: tuple[str, int] | None = None
    """(host, port) of an SQS gateway; None: there is none."""
    work_dir: Path | None = None
    log_level: str = "info"
    tls: bool = False
    """The children speak TLS: their settings name the files."""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """More arguments for a child at every start, by its name (`ingest-1`, `driver-2`, …)."""
    crash_at: Mapping[str, str] = field(default_factory=dict)
    """A crash point for a child, at its first start alone, by its name."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """More environment for every child."""
    coordination: CoordinationSettings = field(default_factory=CoordinationSettings)
    """How an ensemble of somebody else's is spoken to; the children read the same settings."""


class Cluster:
    """The children of one queue. `start`, `wait_ready`, `stop`; also a context manager."""

    def __init__(self, options: ClusterOptions, report: Report = _silent) -> None:
        self.options = options
        self.root = options.root
        folder = local_root(options.root)
        if folder is not None:
            self.root = str(folder)
        self.work_dir = (options.work_dir or default_work_dir(options.root)).absolute()
        self.layout = self._lay_out()
        self._last_numbers: dict[Role, int] = {
            "ingest": options.ingest_nodes,
            "consumer": options.consumer_nodes,
        }
        self._urls = self.layout.urls
        self._report = report
        self._held = ExitStack()
        self._watch: Watch | None = None

    # -- What is where --------------------------------------------------------------------------

    @property
    def ingest_urls(self) -> list[str]:
        """Base URLs of the ingest nodes."""
        return [url for name, url in self._urls.items() if name.startswith("ingest-")]

    @property
    def consumer_urls(self) -> list[str]:
        """Base URLs of the consumer-service nodes."""
        return [url for name, url in self._urls.items() if name.startswith("consumer-")]

    @property
    def driver_urls(self) -> list[str]:
        """Base URLs of the drivers' health checks and metrics."""
        return self.layout.driver_urls

    @property
    def console_url(self) -> str | None:
        """Where browsers find the console; None: there is none."""
        return self.layout.beside_url(self.layout.console)

    @property
    def zookeeper(self) -> str:
        """`host:port,…` of the ensemble."""
        return self.layout.zookeeper_hosts

    @property
    def coordination(self) -> CoordinationSettings:
        """How to speak to it: servers of our own have a password, unless one is set."""
        given = self.options.coordination
        if self.options.zookeeper or given.password or given.password_file:
            return given
        return given.model_copy(update={"password_file": zookeeper_password(self.work_dir)})

    @property
    def log_dir(self) -> Path:
        """Where each child's output is, as `<child>.log`."""
        return self.layout.log_dir

    @property
    def scraped_path(self) -> Path:
        """The file that a Prometheus reads its targets from (`file_sd_configs`)."""
        return self.work_dir / "prometheus-targets.json"

    @property
    def children(self) -> list[Child]:
        """Every child, in the order in which they were started."""
        return list(self._watching().children.values())

    def child(self, name: str) -> Child:
        """The child of that name: `zookeeper`, `ingest-1`, `consumer-1`, `driver-1`, …"""
        children = self._watching().children
        if name not in children:
            raise InvalidRequest(f"no child {name!r}", hint=f"one of {', '.join(children)}")
        return children[name]

    def leader(self) -> str | None:
        """The driver whose state file says that it leads."""
        return self._watching().leader()

    # -- Life -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Check everything that can be checked, then start the children and return at once.

        Raises, with no child started and nothing left behind: `RootUnusable`, `NewerFormat`,
        `SchemaDrift`, `AlreadyRunning`, `PortInUse`, `MissingDependency`, `StartFailed` (an
        external ZooKeeper does not answer).
        """
        if self._watch is not None:
            raise InvalidRequest("the cluster was started already", hint="make a new Cluster")
        make_work_dir(self.work_dir)
        self._held.enter_context(RootLock(self.work_dir))
        try:
            self._check()
            self._tell_scraped()
            watch = Watch(
                [Child(s, self.log_dir, self._environ()) for s in self.layout.children()],
                self._report,
                self._close_dead_session if self.options.close_dead_sessions else _leave,
                self._elsewhere,
            )
            for name, step in self.options.crash_at.items():
                watch.children[name].once = ("--crash-at", step)
            watch.start()
            self._watch = watch
        except BaseException:
            self._held.close()
            raise

    def wait_ready(
        self, timeout_s: float = READY_S, look: Callable[[], None] = lambda: None
    ) -> None:
        """Return when every child is ready and a driver leads; `look` is called meanwhile, at each
        change and about ten times a second.

        Raises `StartFailed`, with the end of the log of what is not ready.
        """
        self._watching().wait_ready(timeout_s, look)

    def wait_leader(self, other_than: str | None = None, timeout_s: float = READY_S) -> str:
        """The driver that leads, as soon as there is one that is not `other_than`."""
        return self._watching().wait_leader(other_than, timeout_s)

    def add(self, role: Role) -> str:
        """Start one more node of a service; its name. `wait_ready` returns when it is ready."""
        watch = self._watching()
        number = self._last_numbers[role] = self._last_numbers[role] + 1
        port = free_port(self.options.host)
        spec = self.layout.service(role, number, port)
        watch.add(Child(spec, self.log_dir, self._environ()))
        self._urls[spec.name] = self.layout.url(port)
        self._tell_scraped()
        return spec.name

    def remove(self, name: str) -> None:
        """Ask a node of a service to end, as a scale-down would, and wait until it has drained."""
        self._watching().remove(name)
        self._urls.pop(name)
        self._tell_scraped()

    def url(self, name: str) -> str:
        """Base URL of a node of a service."""
        return self._urls[name]

    def request_stop(self) -> None:
        """Begin to drain; returns at once, may be called from a signal handler, and repeatedly."""
        if self._watch is not None:
            self._watch.request_stop()

    def request_kill(self) -> None:
        """Kill every child now; returns at once, may be called from a signal handler."""
        if self._watch is not None:
            self._watch.request_kill()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait until every child has ended after a stop; False if the time was too short."""
        if self._watch is not None and not self._watch.join(timeout_s):
            return False
        self._held.close()
        return True

    def stop(self) -> None:
        """Drain in order (ingest, driver, consumer service, ZooKeeper), and wait for it."""
        self.request_stop()
        self.join()

    # -- Faults, for tests and the demo ----------------------------------------------------------

    def kill(self, name: str, *, hold: bool = False) -> None:
        """SIGKILL one child and return when it is gone; with `hold` it stays down."""
        self._watching().kill(name, hold=hold)

    def revive(self, name: str) -> None:
        """Start a child that was killed with `hold`."""
        self._watching().revive(name)

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _elsewhere(self, child: Child) -> ChildSpec | None:
        """The console at a free port, if nobody chose the one that it has."""
        at = self.layout.console
        if at is None or child.spec.place != at or not self.options.console_port_may_change:
            return None
        place = (at[0], free_port(at[0]))
        self.layout = replace(self.layout, console=place)
        return self.layout.console_at(place)

    def _tell_scraped(self) -> None:
        self.scraped_path.write_text(json.dumps(self.layout.scraped(self._urls)))

    # -- Inside ---------------------------------------------------------------------------------

    def _watching(self) -> Watch:
        if self._watch is None:
            raise LakequeueError("the cluster is not started", hint="call start() first")
        return self._watch

    def _lay_out(self) -> Layout:
        options = self.options
        if options.ingest_port and options.ingest_port == options.consumer_port:
            raise PortInUse(
                f"--ingest-port and --consumer-port are both {options.ingest_port}",
                hint="give them different ports",
            )
        taken: set[int] = {options.ingest_port, options.consumer_port}

        def ports(first: int, count: int) -> tuple[int, ...]:
            return free_ports(options.host, taken, first, count)

        return Layout(
            root=self.root,
            work_dir=self.work_dir,
            host=options.host,
            ingest_ports=ports(options.ingest_port, options.ingest_nodes),
            consumer_ports=ports(options.consumer_port, options.consumer_nodes),
            driver_ports=ports(0, options.drivers),
            zookeeper=options.zookeeper,
            zookeeper_ports=self._zookeeper_ports(ports),
            log_level=options.log_level,
            extra=options.extra,
            scheme="https" if options.tls else "http",
            console=self._place(options.console, taken, options.console_port_may_change),
            sqs=self._place(options.sqs, taken),
        )

    @staticmethod
    def _place(at: tuple[str, int] | None, taken: set[int], moves: bool = False) -> Place | None:
        return None if at is None else console_place(*at, taken, may_change=moves)

    def _zookeeper_ports(
        self, ports: Callable[[int, int], tuple[int, ...]]
    ) -> tuple[ZooKeeperPorts, ...]:
        if self.options.zookeepers == 1:
            return (ZooKeeperPorts(ports(0, 1)[0]),)
        return tuple(ZooKeeperPorts(*ports(0, 3)) for _ in range(self.options.zookeepers))

    def _check(self) -> None:
        for port in self.layout.ingest_ports:
            await_free_port(self.options.host, port, "--ingest-port")
        for port in self.layout.consumer_ports:
            await_free_port(self.options.host, port, "--consumer-port")
        for place, option in self.layout.places_beside:
            await_free_port(*place, option)
        find_java()
        if self.options.zookeeper is not None:
            # A server of ours is started with the others; one of somebody else's must be there.
            check_answers(self.options.zookeeper, self.options.coordination)
        if cached_jars() is None:
            self._report("jars", "fetching the Delta jars; this is done once")
            jar_paths()
        # Last: whoever is refused for another reason leaves no queue behind.
        root = QueueRoot.open(self.root, create=True, needs=())
        if (advice := advice_of(root.uri, root.format)) is not None:
            self._report("root", advice)
        if self.options.zookeeper is None:
            take_over_coordination(self.work_dir, self.layout.zookeeper_names)

    def _close_dead_session(self, name: str) -> None:
        """Close what a dead child still holds in ZooKeeper: a standby need not wait for a timeout.

        In a thread of its own: while the ensemble is away this takes seconds, and the supervising
        thread has others to look after.
        """
        for path in (self.work_dir / f"session-{name}", self.work_dir / f"session-{name}.json"):
            if path.exists():
                threading.Thread(
                    target=close_soon,
                    args=(path, self.coordination),
                    name="session-reaper",
                    daemon=True,
                ).start()

    def _password(self) -> dict[str, str]:
        """The file of our own password: the password itself is in no environment."""
        file = self.coordination.password_file
        ours = file is not None and file != self.options.coordination.password_file
        return {"LAKEQUEUE_COORDINATION__PASSWORD_FILE": str(file)} if ours else {}

    def _environ(self) -> dict[str, str]:
        return {
            **programs.environment(),
            "PYTHONUNBUFFERED": "1",
            "LAKEQUEUE_WORK_DIR": str(self.work_dir),
            **self._password(),
            # Looked for once, here; and Spark's workers must run the same Python as its driver.
            "JAVA_HOME": str(find_java().home),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            **self.options.environ,
        }


def _leave(_name: str) -> None:
    return
