"""What spoils a queue under load: a random schedule of faults, made from a seed.

`schedule(seed, …)` is pure, so a seed that found something can be run again. Each fault lasts for
some seconds and is healed; the next begins when the queue is ready again.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.faulty_cluster import (
    CONSUMER,
    INGEST,
    NAMES,
    SESSION_TIMEOUT_S,
    FaultyCluster,
)
from tests.support.history import Event, Recorder
from tests.support.patching import environ
from tests.support.sickness import LOOK_S, SICK_FILE
from tests.support.tcp_proxy import Line

HERE = Path(__file__).parents[2]
SERVICES = (*INGEST, *CONSUMER)
# The hour that is still written to has no end of files to be joined: one MiB of them is enough.
_MAINTENANCE = (("jobs.compaction", "--most-mb", "1"), ("jobs.retention",))
_LATER_S = 7_200.0


@dataclass(frozen=True, slots=True)
class Fault:
    """One entry of a schedule."""

    kind: str
    """A name of `KINDS`."""
    target: str
    """The child it strikes; "" if it strikes all of them."""
    seconds: float
    """How long it lasts; 0: it is over at once."""

    def __str__(self) -> str:
        about = f" {self.target}" if self.target else ""
        return f"{self.kind}{about}" + (f" for {self.seconds:.1f} s" if self.seconds else "")


LONG = (SESSION_TIMEOUT_S + 1.5, SESSION_TIMEOUT_S + 4.0)
SHORT = (2.0, 4.0)
KINDS: dict[str, tuple[Sequence[str], tuple[float, float]]] = {
    "kill": (NAMES, (0.0, 0.0)),
    "kill-leader": (("",), (0.0, 0.0)),
    "freeze": (SERVICES, LONG),
    "freeze-leader": (("",), LONG),
    "cut": (NAMES, LONG),
    "zookeeper-silent": (("",), LONG),
    "zookeeper-killed": (("",), (0.0, 0.0)),
    "zookeeper-rebuilt": (("",), (0.0, 0.0)),
    "zookeeper-slow": (("",), SHORT),
    "writes-fail": (("", *SERVICES), SHORT),
    "commits-unanswered": (("", *SERVICES), SHORT),
    "disk-full": (("", *SERVICES), SHORT),
    "slow-lists": (("",), SHORT),
    "clock-jump": (SERVICES, SHORT),
    "checkpoint-deleted": (("",), (0.0, 0.0)),
    "maintenance": (("",), (0.0, 0.0)),
}
"""Kind → whom it may strike, and for how long (seconds, from and to)."""


def schedule(seed: int, kinds: Sequence[str] = tuple(KINDS)) -> Iterator[Fault]:
    """An endless schedule: every kind once in each round, in a random order. Pure."""
    rng = random.Random(seed)
    while True:
        for kind in rng.sample(list(kinds), len(kinds)):
            targets, lasting = KINDS[kind]
            yield Fault(kind, rng.choice(list(targets)), rng.uniform(*lasting))


class Nemesis:
    """Strikes a cluster, and writes down what it did."""

    def __init__(self, faulty: FaultyCluster, folder: Path, seed: int) -> None:
        self._faulty = faulty
        self._cluster = faulty.cluster
        self._folder = folder
        self._random = random.Random(seed)
        self._said = Recorder(folder / "nemesis.jsonl", "nemesis")
        self._pause = threading.Event()
        self._strikes: dict[str, Callable[[Fault], None]] = {
            "kill": self._kill,
            "kill-leader": self._kill_leader,
            "freeze": self._freeze,
            "freeze-leader": self._freeze_leader,
            "cut": self._cut,
            "zookeeper-silent": self._zookeeper_silent,
            "zookeeper-killed": self._zookeeper_killed,
            "zookeeper-rebuilt": self._zookeeper_rebuilt,
            "zookeeper-slow": self._zookeeper_slow,
            "writes-fail": lambda f: self._sicken(f, failing=0.2),
            "commits-unanswered": lambda f: self._sicken(f, applied=0.3),
            "disk-full": lambda f: self._sicken(f, full=0.5),
            "slow-lists": lambda f: self._sicken(f, slow_lists_ms=150),
            "clock-jump": self._clock_jump,
            "checkpoint-deleted": self._checkpoint_deleted,
            "maintenance": self._maintain,
        }

    def strike(self, fault: Fault) -> None:
        """Do it, heal it, and wait until the queue is ready."""
        sys.stderr.write(f"nemesis: {fault}\n")
        self._strikes[fault.kind](fault)
        self._cluster.wait_ready()
        self._said.write([Event("heal")])

    def close(self) -> None:
        """No more faults."""
        self._faulty.sicken()
        self._said.close()

    def _wait(self, fault: Fault) -> None:
        self._pause.wait(fault.seconds)

    def _died(self, name: str) -> None:
        self._said.write([Event("crash", proc=name)])

    def _kill(self, fault: Fault) -> None:
        self._cluster.kill(fault.target)
        self._died(fault.target)

    def _kill_leader(self, _fault: Fault) -> None:
        leader = self._cluster.wait_leader()
        self._cluster.kill(leader)
        self._died(leader)
        self._cluster.wait_leader(other_than=leader)

    def _freeze(self, fault: Fault) -> None:
        self._faulty.freeze(fault.target)
        try:
            self._wait(fault)
        finally:
            self._faulty.thaw(fault.target)

    def _freeze_leader(self, fault: Fault) -> None:
        """Two leaders are forced alive: the frozen one wakes up when another has its term."""
        leader = self._cluster.wait_leader()
        self._freeze(Fault(fault.kind, leader, fault.seconds))

    def _cut(self, fault: Fault) -> None:
        """Long enough for its session to expire."""
        proxy = self._faulty.proxies[fault.target]
        proxy.set(Line.CUT)
        try:
            self._wait(fault)
        finally:
            proxy.set(Line.OPEN)

    def _zookeeper_silent(self, fault: Fault) -> None:
        """As without a majority: connections stay, and nothing is answered to anybody."""
        self._cluster.pause("zookeeper")
        try:
            self._wait(fault)
        finally:
            self._cluster.resume("zookeeper")

    def _zookeeper_killed(self, _fault: Fault) -> None:
        self._cluster.kill("zookeeper")
        self._died("zookeeper")

    def _zookeeper_rebuilt(self, _fault: Fault) -> None:
        """Killed, and all that it knew is gone: it counts epochs anew."""
        self._cluster.kill("zookeeper", hold=True)
        self._died("zookeeper")
        shutil.rmtree(self._cluster.work_dir / "zookeeper" / "data")
        self._cluster.revive("zookeeper")

    def _zookeeper_slow(self, fault: Fault) -> None:
        for proxy in self._faulty.proxies.values():
            proxy.delay_s = 0.2
        try:
            self._wait(fault)
        finally:
            for proxy in self._faulty.proxies.values():
                proxy.delay_s = 0.0

    def _sicken(self, fault: Fault, **ills: float) -> None:
        self._faulty.sicken(only=[fault.target] if fault.target else list(NAMES), **ills)
        try:
            self._wait(fault)
        finally:
            self._faulty.sicken(only=None, **dict.fromkeys(ills))

    def _clock_jump(self, fault: Fault) -> None:
        self._said.write([Event("clock", "invoke", proc=fault.target)])
        self._faulty.sicken(clock_s={fault.target: self._random.choice([-60.0, 60.0])})
        try:
            self._wait(fault)
        finally:
            self._faulty.sicken(clock_s=None)
            self._pause.wait(LOOK_S)
            self._said.write([Event("clock", proc=fault.target)])

    def _checkpoint_deleted(self, fault: Fault) -> None:
        """Of the leader, which dies with it; each term has one of its own."""
        leader = self._cluster.wait_leader()
        for folder in self._cluster.work_dir.glob(f"driver-{leader}.*.d/*-checkpoint"):
            shutil.rmtree(folder, ignore_errors=True)
        self._kill_leader(fault)

    def _maintain(self, _fault: Fault) -> None:
        """Compaction and retention, under load, by a clock for which the present hour is over."""
        chart = self._folder / "maintenance.json"
        chart.write_text(json.dumps({"clock_s": {"": _LATER_S}}))
        for job in _MAINTENANCE:
            if self._ran(job, chart) is not None:
                # Its own report says to start it again; a second failure is a fault.
                failure = self._ran(job, chart)
                assert failure is None, failure

    def _ran(self, job: Sequence[str], chart: Path) -> str | None:
        """None if it ended well; else what it said, which is printed."""
        done = subprocess.run(
            [sys.executable, "-m", *job, "--root", self._cluster.root],
            cwd=HERE,
            check=False,
            capture_output=True,
            text=True,
            env=os.environ | environ("sickness") | {SICK_FILE: str(chart)},
            timeout=300,
        )
        if done.returncode == 0:
            return None
        said = f"{job[0]} ended with {done.returncode}: {done.stdout}{done.stderr}"
        sys.stderr.write(f"{said}\n")
        return said
