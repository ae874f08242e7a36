"""A whole queue on this machine whose network, storage and clocks a test can spoil.

Each child reaches ZooKeeper through a proxy of its own, and reads a file that says what ails its
storage and its clock (`sickness.py`). While nobody spoils anything it is like any other.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lakequeue.supervisor.cluster import Cluster, ClusterOptions
from lakequeue.supervisor.plan import ChildSpec, Layout
from tests.support.patching import environ
from tests.support.sickness import SICK_FILE
from tests.support.tcp_proxy import TcpProxy

SESSION_TIMEOUT_S = 4.0
INGEST = ("ingest-1", "ingest-2")
CONSUMER = ("consumer-1", "consumer-2")
DRIVERS = ("driver-1", "driver-2")
NAMES = (*INGEST, *CONSUMER, *DRIVERS)


def _say(name: str, what: str) -> None:
    sys.stderr.write(f"{name}: {what}\n")


class _LightLayout(Layout):
    """With drivers that start no Spark (`light_driver.py`)."""

    def _driver(self, number: int, port: int) -> ChildSpec:
        real = super()._driver(number, port)
        at = real.command.index("jobs.driver")
        light = (*real.command[:at], "tests.support.light_driver", *real.command[at + 1 :])
        return replace(real, command=light)


class FaultyCluster:
    """Two nodes of each service, two drivers (one stands by), ZooKeeper: a context manager."""

    def __init__(self, folder: Path, *, spark: bool, **settings: str) -> None:
        """`spark`: with the jobs as they are; without, see `light_driver.py`."""
        self._sick_file = folder / "sick.json"
        self._held = ExitStack()
        self._sick: dict[str, Any] = {}
        self.proxies = {name: TcpProxy() for name in NAMES}
        self.cluster = Cluster(
            ClusterOptions(
                root=str(folder / "root"),
                ingest_nodes=len(INGEST),
                consumer_nodes=len(CONSUMER),
                drivers=len(DRIVERS),
                extra={n: ("--zookeeper", p.address) for n, p in self.proxies.items()},
                environ={
                    **environ("sickness"),
                    SICK_FILE: str(self._sick_file),
                    "LAKEQUEUE_COORDINATION__SESSION_TIMEOUT_S": str(SESSION_TIMEOUT_S),
                    **settings,
                },
            ),
            _say,
        )
        if not spark:
            real = self.cluster.layout
            self.cluster.layout = _LightLayout(
                **{f.name: getattr(real, f.name) for f in fields(real)}
            )
        for proxy in self.proxies.values():
            proxy.target = self.cluster.zookeeper

    def sicken(self, **ills: Any) -> None:
        """Change what ails the processes; see `sickness.py`. `None` heals."""
        self._sick = {k: v for k, v in (self._sick | ills).items() if v is not None}
        temp = self._sick_file.with_suffix(".tmp")
        temp.write_text(json.dumps(self._sick))
        temp.rename(self._sick_file)

    def freeze(self, name: str) -> None:
        """SIGSTOP all processes of a child."""
        os.killpg(self.cluster.child(name).pid, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """SIGCONT."""
        os.killpg(self.cluster.child(name).pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        for proxy in self.proxies.values():
            self._held.enter_context(proxy)
        self._held.enter_context(self.cluster)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._held.close()
