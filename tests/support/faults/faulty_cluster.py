"""A whole queue on this machine whose network, storage, clocks and power a test can spoil.

Each child reaches each ZooKeeper server through a proxy of its own, and clients and nodes reach
each node through another. Each child reads a file that says what ails its storage and its clock
(`sickness.py`), and notes what it has synced (`power.py`). While nobody spoils anything it is like
any other.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lakequeue.errors import LakequeueError
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions
from lakequeue_cli.supervisor.plan import ChildSpec, Layout
from queue_tables.root import QueueRoot
from tests.support.faults.patching import environ
from tests.support.faults.power import NOTES, PowerCut
from tests.support.faults.sickness import SICK_FILE
from tests.support.faults.tcp_proxy import Line, TcpProxy

SESSION_TIMEOUT_S = 4.0
INGEST = ("ingest-1", "ingest-2")
CONSUMER = ("consumer-1", "consumer-2")
DRIVERS = ("driver-1", "driver-2")
NAMES = (*INGEST, *CONSUMER, *DRIVERS)
SERVICES = (*INGEST, *CONSUMER)
ENSEMBLE = ("zookeeper-1", "zookeeper-2", "zookeeper-3")
_SLOW_SYNC_MS = 150
_SLOW_FOR_S = 1.0


def _say(name: str, what: str) -> None:
    sys.stderr.write(f"{name}: {what}\n")


class LightLayout(Layout):
    """With drivers that start no Spark (`light_driver.py`)."""

    def _driver(self, number: int, port: int) -> ChildSpec:
        real = super()._driver(number, port)
        at = real.command.index("jobs.driver")
        light = (*real.command[:at], "tests.support.runs.light_driver", *real.command[at + 1 :])
        return replace(real, command=light)


class FaultyCluster:
    """Two nodes of each service, two drivers (one stands by), three ZooKeepers: a context manager.

    Clients use `ingest_urls` and `consumer_urls`, which lead through the proxies.
    """

    def __init__(self, folder: Path, *, spark: bool, **settings: str) -> None:
        """`spark`: with the jobs as they are; without, see `light_driver.py`."""
        self._sick_file = folder / "sick.json"
        self._held = ExitStack()
        self._sick: dict[str, Any] = {}
        self._sickening = threading.Lock()
        self._links = {name: [TcpProxy() for _ in ENSEMBLE] for name in NAMES}
        self.doors = {name: TcpProxy() for name in SERVICES}
        """Between a node and all who speak to it."""
        root = folder / "root"
        notes = folder / "synced"
        self.environ = {
            **environ("sickness", "power"),
            SICK_FILE: str(self._sick_file),
            NOTES: str(notes),
        }
        """What makes a process one of them."""
        self.cluster = Cluster(
            ClusterOptions(
                root=str(root),
                ingest_nodes=len(INGEST),
                consumer_nodes=len(CONSUMER),
                drivers=len(DRIVERS),
                zookeepers=len(ENSEMBLE),
                extra={name: self._extra(name) for name in NAMES},
                environ={
                    **self.environ,
                    "LAKEQUEUE_COORDINATION__SESSION_TIMEOUT_S": str(SESSION_TIMEOUT_S),
                    **settings,
                },
            ),
            _say,
        )
        if not spark:
            real = self.cluster.layout
            self.cluster.layout = LightLayout(
                **{f.name: getattr(real, f.name) for f in fields(real)}
            )
        for links in self._links.values():
            for link, address in zip(links, self.cluster.zookeeper.split(","), strict=True):
                link.target = address
        for name, door in self.doors.items():
            door.target = self.cluster.url(name).removeprefix("http://")
        # The start is no part of what is tried: who starts the queue notes nothing.
        QueueRoot.open(str(root), create=True)
        self._power = PowerCut(root, notes, leave=self.cluster.work_dir)

    def _extra(self, name: str) -> tuple[str, ...]:
        zookeeper = ",".join(link.address for link in self._links[name])
        door = self.doors.get(name)
        url = () if door is None else ("--url", f"http://{door.address}")
        return ("--zookeeper", zookeeper, *url)

    @property
    def root(self) -> str:
        """The tables."""
        return self.cluster.root

    @property
    def ingest_urls(self) -> list[str]:
        """Base URLs of the ingest nodes, for clients."""
        return [f"http://{self.doors[name].address}" for name in INGEST]

    @property
    def consumer_urls(self) -> list[str]:
        """Base URLs of the consumer-service nodes, for clients."""
        return [f"http://{self.doors[name].address}" for name in CONSUMER]

    def cut_off(self, name: str, line: Line) -> None:
        """Change the network between a child and ZooKeeper."""
        for link in self._links[name]:
            link.set(line)

    def delay(self, seconds: float) -> None:
        """Make ZooKeeper that slow for everybody."""
        for links in self._links.values():
            for link in links:
                link.delay_s = seconds

    def sicken(self, **ills: Any) -> None:
        """Change what ails the processes; see `sickness.py`. `None` heals."""
        with self._sickening:
            self._sick = {k: v for k, v in (self._sick | ills).items() if v is not None}
            temp = self._sick_file.with_suffix(".tmp")
            temp.write_text(json.dumps(self._sick))
            temp.rename(self._sick_file)

    def kill(self, names: Sequence[str]) -> None:
        """SIGKILL these, which stay down until `revive`."""
        for name in names:
            self.cluster.kill(name, hold=True)

    def revive(self, names: Sequence[str]) -> None:
        """Start them again."""
        for name in names:
            self.cluster.revive(name)

    def lose_power(self, rng: random.Random) -> list[str]:
        """All die at once, and what was not synced is gone; what that was. `revive` is to follow.

        Whatever is synced is so late, before: else the moment is seldom met.
        """
        self.sicken(slow_syncs_ms=_SLOW_SYNC_MS)
        threading.Event().wait(_SLOW_FOR_S)
        self.kill((*NAMES, *ENSEMBLE))
        self.sicken(slow_syncs_ms=None)
        return self._power.cut(rng)

    def freeze(self, name: str) -> None:
        """SIGSTOP all processes of a child."""
        self._signal(name, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """SIGCONT."""
        self._signal(name, signal.SIGCONT)

    def _signal(self, name: str, number: signal.Signals) -> None:
        """To nobody if it has just ended of another fault."""
        with suppress(LakequeueError, ProcessLookupError):
            os.killpg(self.cluster.child(name).pid, number)

    def __enter__(self) -> Self:
        for links in self._links.values():
            for link in links:
                self._held.enter_context(link)
        for door in self.doors.values():
            self._held.enter_context(door)
        self._held.enter_context(self.cluster)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._held.close()
