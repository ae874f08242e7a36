"""Which children a queue on this machine has, with their commands and probes: no I/O.

| child | command | ready when |
|---|---|---|
| zookeeper | `python -m coordination.embedded` | it answers `srvr` |
| zookeeper-N | the same, one of an ensemble | it has found a majority, and answers |
| ingest-N | `python -m ingest` | `/readyz` says 200 |
| consumer-N | `python -m consumer_service` | `/readyz` says 200 |
| driver-N | `python -m jobs.driver` | its state file says standby or leading |
| console | `python -m console` | `/healthz` says 200; nothing waits for it |
| sqs | `python -m sqs_gateway` | `/healthz` says 200 |
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Literal, NamedTuple

from lakequeue.processes.programs import command

Place = tuple[str, int]
"""Host and port."""


class Drain(IntEnum):
    """The order in which the children are asked to end; equal ones end together.

    First no record comes in any more, then the order driver finishes its batch, then consumers
    are let go, and what all of them hold on to goes last.
    """

    INGEST = 1
    DRIVER = 2
    CONSUMER = 3
    ZOOKEEPER = 4


@dataclass(frozen=True)
class HttpReady:
    """Ready when GET `url` is answered with 200."""

    url: str


@dataclass(frozen=True)
class DriverReady:
    """Ready when the state file names the child's own pid, as standby or leading."""

    state_file: Path


@dataclass(frozen=True)
class ZooKeeperReady:
    """Ready when the server on the loopback `port` answers."""

    port: int


Probe = HttpReady | DriverReady | ZooKeeperReady


@dataclass(frozen=True)
class ChildSpec:
    """One child: what is run, when it counts as ready, when it ends."""

    name: str
    command: tuple[str, ...]
    probe: Probe
    drain: Drain
    drain_s: float
    """How long it may take to end before it is killed."""
    writes_to: tuple[Path, ...] = ()
    """Local folders without which it cannot live."""
    beside: bool = False
    """The queue is ready without it."""
    place: Place | None = None
    """Where it listens."""
    option: str = ""
    """The option of `up` that says its port; none does if it was a free one."""


class ZooKeeperPorts(NamedTuple):
    """Of one server: for clients, and in an ensemble for its peers and for elections."""

    client: int
    peer: int = 0
    election: int = 0


Role = Literal["ingest", "consumer"]
_SERVICES: dict[Role, tuple[str, Drain]] = {
    "ingest": ("ingest", Drain.INGEST),
    "consumer": ("consumer_service", Drain.CONSUMER),
}


@dataclass(frozen=True)
class Layout:
    """The whole of a queue on this machine. Ports are given, none is 0."""

    root: str
    work_dir: Path
    host: str
    ingest_ports: tuple[int, ...]
    consumer_ports: tuple[int, ...]
    driver_ports: tuple[int, ...]
    zookeeper: str | None
    """Hosts of an external ensemble; None: servers of our own."""
    zookeeper_ports: tuple[ZooKeeperPorts, ...]
    """Of each server of our own: one alone, or an ensemble."""
    log_level: str = "info"
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """More arguments for a child, by its name."""
    python: str = sys.executable
    scheme: str = "http"
    """`https`: the children speak TLS."""
    console: Place | None = None
    """Where the console listens; None: there is none."""
    sqs: Place | None = None
    """Where the SQS gateway listens; None: there is none."""

    @property
    def zookeeper_hosts(self) -> str:
        """What the services are given."""
        own = ",".join(f"127.0.0.1:{ports.client}" for ports in self.zookeeper_ports)
        return self.zookeeper or own

    @property
    def urls(self) -> dict[str, str]:
        """Base URL of each node of the two services, by its name."""
        ingest = {f"ingest-{n}": self.url(p) for n, p in enumerate(self.ingest_ports, 1)}
        return ingest | {f"consumer-{n}": self.url(p) for n, p in enumerate(self.consumer_ports, 1)}

    @property
    def driver_urls(self) -> list[str]:
        """Base URLs of the drivers' `/healthz`, `/readyz` and `/metrics`."""
        return [self.url(port) for port in self.driver_ports]

    @property
    def log_dir(self) -> Path:
        """Where each child's output goes, as `<child>.log`."""
        return self.work_dir / "logs"

    def scraped(self, nodes: Mapping[str, str] | None = None) -> list[dict[str, object]]:
        """What a Prometheus is to scrape, in the form of its `file_sd_configs`.

        `nodes`: the URLs of the nodes there are now, by name; None: those at the start.
        """
        urls = self.urls if nodes is None else nodes
        roles = {
            role: [url for name, url in urls.items() if name.startswith(f"{role}-")]
            for role in _SERVICES
        } | {"driver": self.driver_urls}
        if (sqs := self.beside_url(self.sqs)) is not None:
            roles["sqs"] = [sqs]
        more = {} if self.scheme == "http" else {"__scheme__": self.scheme}
        return [
            {
                "targets": [url.removeprefix(f"{self.scheme}://") for url in urls],
                "labels": {"role": role, **more},
            }
            for role, urls in roles.items()
        ]

    def children(self) -> list[ChildSpec]:
        """Every child, in the order in which they are started."""
        return [
            *(self._zookeepers() if self.zookeeper is None else []),
            # The driver takes longest to start: it goes before the services.
            *(self._driver(number, port) for number, port in enumerate(self.driver_ports, 1)),
            *(self.service("ingest", n, port) for n, port in enumerate(self.ingest_ports, 1)),
            *(self.service("consumer", n, port) for n, port in enumerate(self.consumer_ports, 1)),
            *([] if self.console is None else [self.console_at(self.console)]),
            *([] if self.sqs is None else [self._sqs(self.sqs)]),
        ]

    @property
    def places_beside(self) -> list[tuple[Place, str]]:
        """Where those listen that stand beside the services, and the options that say so."""
        beside = ((self.console, "--console-port"), (self.sqs, "--sqs-port"))
        return [(place, option) for place, option in beside if place is not None]

    def beside_url(self, place: Place | None) -> str | None:
        """The URL of one of them."""
        return None if place is None else f"{self.scheme}://{place[0]}:{place[1]}"

    @property
    def zookeeper_names(self) -> list[str]:
        """The servers of our own: children, and folders of `work_dir`."""
        count = len(self.zookeeper_ports)
        return ["zookeeper"] if count == 1 else [f"zookeeper-{n}" for n in range(1, count + 1)]

    def _zookeepers(self) -> list[ChildSpec]:
        named = list(zip(self.zookeeper_names, self.zookeeper_ports, strict=True))
        if len(named) == 1:
            return [self._zookeeper(name, ports.client) for name, ports in named]
        servers = ",".join(
            f"{n}=127.0.0.1:{ports.peer}:{ports.election}" for n, (_, ports) in enumerate(named, 1)
        )
        return [
            self._zookeeper(name, ports.client, "--number", str(n), "--servers", servers)
            for n, (name, ports) in enumerate(named, 1)
        ]

    def _zookeeper(self, name: str, port: int, *place: str) -> ChildSpec:
        started = (
            *command("coordination.embedded", self.python),
            *("--data-dir", str(self.work_dir / name)),
            *("--port", str(port), *place),
            "--die-with-parent",
            *self.extra.get(name, ()),
        )
        places = (self.work_dir,)
        return ChildSpec(name, started, ZooKeeperReady(port), Drain.ZOOKEEPER, 10.0, places)

    def _driver(self, number: int, port: int) -> ChildSpec:
        name = f"driver-{number}"
        started = self._command("jobs.driver", name, "--host", self.host, "--port", str(port))
        probe = DriverReady(self.work_dir / f"driver-{name}.json")
        place = (self.host, port)
        return ChildSpec(name, started, probe, Drain.DRIVER, 30.0, self._places, place=place)

    def console_at(self, place: Place) -> ChildSpec:
        """The console, listening there."""
        sqs = self.beside_url(self.sqs)
        gateways = () if sqs is None else ("--sqs-url", sqs)
        shown = ("--driver-url", ",".join(self.driver_urls), *gateways)
        started = self._of_services("console", "console", place, *shown)
        probe = HttpReady(f"{self.beside_url(place)}/healthz")
        return ChildSpec(
            "console",
            started,
            probe,
            Drain.INGEST,
            5.0,
            beside=True,
            place=place,
            option="--console-port",
        )

    def _sqs(self, place: Place) -> ChildSpec:
        started = self._of_services("sqs_gateway", "sqs", place)
        probe = HttpReady(f"{self.beside_url(place)}/healthz")
        return ChildSpec(
            "sqs", started, probe, Drain.INGEST, 25.0, place=place, option="--sqs-port"
        )

    def _of_services(self, module: str, name: str, place: Place, *more: str) -> tuple[str, ...]:
        """What is run for a process that asks the services by HTTP."""
        of = {
            role: ",".join(url for node, url in self.urls.items() if node.startswith(f"{role}-"))
            for role in _SERVICES
        }
        return (
            *command(module, self.python),
            *("--root", self.root, "--host", place[0], "--port", str(place[1])),
            *("--ingest-url", of["ingest"], "--consumer-url", of["consumer"], *more),
            *("--log-level", self.log_level, "--die-with-parent"),
            *self.extra.get(name, ()),
        )

    def service(self, role: Role, number: int, port: int) -> ChildSpec:
        """A node of one of the two services."""
        name = f"{role}-{number}"
        module, drain = _SERVICES[role]
        started = self._command(module, name, "--host", self.host, "--port", str(port))
        probe = HttpReady(f"{self.url(port)}/readyz")
        option = f"--{role}-port" if number == 1 else ""
        place = (self.host, port)
        return ChildSpec(name, started, probe, drain, 25.0, self._places, False, place, option)

    def url(self, port: int) -> str:
        """Base URL of the service that listens on `port`."""
        return f"{self.scheme}://{self.host}:{port}"

    @property
    def _places(self) -> tuple[Path, ...]:
        """Where all but ZooKeeper write: their root as well, if it is on this machine."""
        return (self.work_dir, *(() if "://" in self.root else (Path(self.root),)))

    def _command(self, module: str, name: str, *more: str) -> tuple[str, ...]:
        return (
            *command(module, self.python),
            *("--root", self.root, "--zookeeper", self.zookeeper_hosts, "--node", name),
            *more,
            *("--log-level", self.log_level, "--die-with-parent"),
            *self.extra.get(name, ()),
        )
