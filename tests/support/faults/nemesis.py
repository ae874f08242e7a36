"""What spoils a queue under load: a random schedule of faults, made from a seed.

`schedule(seed, …)` is pure, so a seed that found something can be run again. A *blow* ends, stops
or cuts off somebody; an *ill* is of storage, network or a clock, and strikes together with a blow.
Each lasts for some seconds and is healed; the next begin when the queue is ready again.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from consumer_service.read_failover import PATIENCE_S
from history_checker.history import Event, Recorder
from tests.support.faults.faulty_cluster import (
    CONSUMER,
    ENSEMBLE,
    INGEST,
    NAMES,
    SERVICES,
    SESSION_TIMEOUT_S,
    FaultyCluster,
)
from tests.support.faults.sickness import IN_THE_MIDDLE_S, SICK_FILE
from tests.support.faults.tcp_proxy import Line

HERE = Path(__file__).parents[3]
# The hour that is still written to has no end of files to be joined: one MiB of them is enough.
_MAINTENANCE = (("jobs.compaction", "--most-mb", "1"), ("jobs.retention",))
_LATER_S = 7_200.0
_MAINTENANCE_S = 1_200
"""So long only where nobody gets a processor: it ends in seconds on a machine of its own."""


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


Kinds = dict[str, tuple[Sequence[str], tuple[float, float]]]
AT_ONCE = (0.0, 0.0)
LONG = (SESSION_TIMEOUT_S + 1.5, SESSION_TIMEOUT_S + 4.0)
SHORT = (2.0, 4.0)
UNREADABLE = (PATIENCE_S + 1.0, PATIENCE_S + 3.0)
"""Long enough for a consumer-service node to send its members away."""
BLOWS: Kinds = {
    "kill": (NAMES, AT_ONCE),
    "kill-leader": (("",), AT_ONCE),
    "freeze": (SERVICES, LONG),
    "freeze-leader": (("",), LONG),
    "cut": (NAMES, LONG),
    "clients-cut": (("", *SERVICES), SHORT),
    "clients-unheard": (("", *SERVICES), SHORT),
    "zookeeper-silent": (("",), LONG),
    "zookeeper-killed": (ENSEMBLE, AT_ONCE),
    "zookeeper-rebuilt": (("",), AT_ONCE),
    "majority-lost": (ENSEMBLE, LONG),
    "power-lost": (("",), AT_ONCE),
}
ILLS: Kinds = {
    "zookeeper-slow": (("",), SHORT),
    "writes-fail": (("", *SERVICES), SHORT),
    "commits-unanswered": (("", *SERVICES), SHORT),
    "disk-full": (("", *SERVICES), SHORT),
    "slow-lists": (("",), SHORT),
    "ingest-unreadable": (INGEST, SHORT),
    "consumer-unreadable": (CONSUMER, UNREADABLE),
    "leader-unreadable": (("",), SHORT),
    "clock-jump": (SERVICES, SHORT),
    "maintenance": (("",), AT_ONCE),
}
OF_SPARK: Kinds = {
    "checkpoint-deleted": (("",), AT_ONCE),
    "checkpoint-restored": (("",), SHORT),
}
"""Blows to what only a driver with Spark has."""
KINDS: Kinds = BLOWS | ILLS | OF_SPARK
"""Kind → whom it may strike, and for how long (seconds, from and to)."""
_NOT_TOGETHER = frozenset({("power-lost", "maintenance"), ("freeze-leader", "leader-unreadable")})
"""The job of the ill would have to die as well; who is frozen does not read."""


def schedule(seed: int, kinds: Sequence[str] = tuple(KINDS)) -> Iterator[tuple[Fault, ...]]:
    """An endless schedule of faults that strike at once: every kind once in each round. Pure."""
    rng = random.Random(seed)

    def fault(kind: str) -> Fault:
        targets, lasting = KINDS[kind]
        return Fault(kind, rng.choice(list(targets)), rng.uniform(*lasting))

    while True:
        ills = rng.sample([k for k in kinds if k in ILLS], sum(k in ILLS for k in kinds))
        blows = [k for k in kinds if k not in ILLS]
        for kind in rng.sample(blows, len(blows)):
            ill = next((i for i in ills if (kind, i) not in _NOT_TOGETHER), None)
            if ill is None:
                yield (fault(kind),)
            else:
                ills.remove(ill)
                yield fault(kind), fault(ill)
        for ill in ills:
            yield (fault(ill),)


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
            "clients-cut": lambda f: self._shut_doors(f, Line.CUT),
            "clients-unheard": lambda f: self._shut_doors(f, Line.SILENT),
            "zookeeper-silent": self._zookeeper_silent,
            "zookeeper-killed": self._kill,
            "zookeeper-rebuilt": self._zookeeper_rebuilt,
            "majority-lost": self._majority_lost,
            "power-lost": self._power_lost,
            "zookeeper-slow": self._zookeeper_slow,
            "writes-fail": lambda f: self._sicken(f, failing=0.2),
            "commits-unanswered": lambda f: self._sicken(f, applied=0.3),
            "disk-full": lambda f: self._sicken(f, full=0.5),
            "slow-lists": lambda f: self._sicken(f, slow_lists_ms=150),
            "ingest-unreadable": self._make_unreadable,
            "consumer-unreadable": self._make_unreadable,
            "leader-unreadable": self._make_leader_unreadable,
            "clock-jump": self._clock_jump,
            "checkpoint-deleted": self._checkpoint_deleted,
            "checkpoint-restored": self._checkpoint_restored,
            "maintenance": self._maintain,
        }

    def strike(self, faults: Sequence[Fault]) -> None:
        """Do them at once, heal them, and wait until the queue is ready."""
        began = time.monotonic()
        sys.stderr.write(f"nemesis: {' and '.join(map(str, faults))}\n")
        with ThreadPoolExecutor(len(faults)) as pool:
            for done in [pool.submit(self._strikes[f.kind], f) for f in faults]:
                done.result()
        over = time.monotonic()
        self._cluster.wait_ready()
        self._said.write([Event("heal")])
        ready = time.monotonic()
        sys.stderr.write(f"nemesis: after {over - began:.1f} s, ready {ready - over:.1f} s later\n")

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
        # The same one again, if the other one has met another fault before it led.
        self._cluster.wait_leader()

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
        self._faulty.cut_off(fault.target, Line.CUT)
        try:
            self._wait(fault)
        finally:
            self._faulty.cut_off(fault.target, Line.OPEN)

    def _shut_doors(self, fault: Fault, line: Line) -> None:
        """The node lives and leads, and nobody reaches it; or nobody reaches anybody."""
        doors = [d for n, d in self._faulty.doors.items() if fault.target in {"", n}]
        for door in doors:
            door.set(line)
        try:
            self._wait(fault)
        finally:
            for door in doors:
                door.set(Line.OPEN)

    def _zookeeper_silent(self, fault: Fault) -> None:
        """As without a majority: connections stay, and nothing is answered to anybody."""
        for name in ENSEMBLE:
            self._faulty.freeze(name)
        try:
            self._wait(fault)
        finally:
            for name in ENSEMBLE:
                self._faulty.thaw(name)

    def _majority_lost(self, fault: Fault) -> None:
        """All but the target die; it serves nobody alone."""
        lost = [name for name in ENSEMBLE if name != fault.target]
        self._faulty.kill(lost)
        try:
            self._wait(fault)
        finally:
            self._faulty.revive(lost)

    def _zookeeper_rebuilt(self, _fault: Fault) -> None:
        """Killed, and all that it knew is gone: it counts epochs anew."""
        self._faulty.kill(ENSEMBLE)
        for name in ENSEMBLE:
            shutil.rmtree(self._cluster.work_dir / name / "data")
        self._faulty.revive(ENSEMBLE)

    def _power_lost(self, _fault: Fault) -> None:
        """The machine's: nobody survives, and only what was synced."""
        lost = self._faulty.lose_power(self._random)
        for name in NAMES:
            self._died(name)
        sys.stderr.write(f"nemesis: the power took {', '.join(lost) or 'nothing'}\n")
        self._faulty.revive((*ENSEMBLE, *NAMES))

    def _zookeeper_slow(self, fault: Fault) -> None:
        self._faulty.delay(0.2)
        try:
            self._wait(fault)
        finally:
            self._faulty.delay(0.0)

    def _sicken(self, fault: Fault, **ills: float) -> None:
        self._faulty.sicken(only=[fault.target] if fault.target else list(NAMES), **ills)
        try:
            self._wait(fault)
        finally:
            self._faulty.sicken(only=None, **dict.fromkeys(ills))

    def _make_unreadable(self, fault: Fault) -> None:
        """Whatever it reads fails: some of it at once, some only after a time."""
        self._sicken(fault, unreadable=1.0, unreadable_within_ms=500)

    def _make_leader_unreadable(self, fault: Fault) -> None:
        self._make_unreadable(Fault(fault.kind, self._cluster.wait_leader(), fault.seconds))

    def _clock_jump(self, fault: Fault) -> None:
        self._said.write([Event("clock", "invoke", proc=fault.target)])
        self._faulty.sicken(clock_s={fault.target: self._random.choice([-60.0, 60.0])})
        try:
            self._wait(fault)
        finally:
            self._faulty.sicken(clock_s=None)
            self._pause.wait(IN_THE_MIDDLE_S)
            self._said.write([Event("clock", proc=fault.target)])

    def _checkpoint_deleted(self, fault: Fault) -> None:
        """Of the leader, which dies with it; each term has one of its own."""
        leader = self._cluster.wait_leader()
        for folder in self._checkpoints(leader):
            shutil.rmtree(folder, ignore_errors=True)
        self._kill_leader(fault)

    def _checkpoint_restored(self, fault: Fault) -> None:
        """Of the leader, as it was some batches before; then it dies."""
        leader = self._cluster.wait_leader()
        kept = self._folder / "checkpoints"
        folders = self._checkpoints(leader)
        for n, folder in enumerate(folders):
            # Spark makes and removes files in it meanwhile.
            with contextlib.suppress(shutil.Error):
                shutil.copytree(folder, kept / str(n))
        self._wait(fault)
        for n, folder in enumerate(folders):
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(shutil.Error, FileExistsError):
                shutil.copytree(kept / str(n), folder)
        shutil.rmtree(kept)
        self._kill_leader(fault)

    def _checkpoints(self, driver: str) -> list[Path]:
        found = list(self._cluster.work_dir.glob(f"driver-{driver}.*.d/*-checkpoint-*"))
        assert found, f"{driver} has no checkpoint"
        return found

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
            env=os.environ | self._faulty.environ | {SICK_FILE: str(chart)},
            timeout=_MAINTENANCE_S,
        )
        if done.returncode == 0:
            return None
        said = f"{job[0]} ended with {done.returncode}: {done.stdout}{done.stderr}"
        sys.stderr.write(f"{said}\n")
        return said
