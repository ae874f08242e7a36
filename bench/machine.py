"""What a figure was measured on: machine, versions, moment."""

from __future__ import annotations

import hashlib
import os
import platform
import time
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TypedDict

import psutil

_PACKAGES = ("lakequeue", "pyspark", "delta-spark", "deltalake", "pyarrow", "kazoo", "flask")


class Machine(TypedDict):
    """Rendered into every result file."""

    measured_at: str
    cores: int
    memory_gib: float
    kernel: str
    python: str
    versions: dict[str, str]


def describe() -> Machine:
    """The machine this runs on, now."""
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count() or 0,
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in _PACKAGES},
    }


class Calibration(TypedDict):
    """How fast the machine is just now. It says what absolute figures of two runs are worth."""

    loop_ms: float
    """Of work that is always the same, on one core."""
    load_average: float


_ROUNDS = 200_000


def calibrated() -> Calibration:
    """Time five loops on one core (Python's own work, a hash of 8 MiB), and take the middle one."""
    block, times = bytes(8 << 20), []
    for _ in range(5):
        began, total = time.perf_counter(), 0
        for number in range(_ROUNDS):
            total += number % 7
        hashlib.sha256(block).digest()
        times.append(time.perf_counter() - began)
    return {
        "loop_ms": round(sorted(times)[2] * 1_000, 1),
        "load_average": round(os.getloadavg()[0], 1),
    }


class Usage(TypedDict):
    """CPU and memory of a process and all below it."""

    cpu_cores: float
    rss_mib: float
    pss_mib: float
    processes: int


def usage(pid: int, seconds: float) -> Usage:
    """Watch the tree of `pid` for `seconds`: mean cores used, and memory at the end.

    PSS divides shared pages among those who share them, so it is what the whole tree takes.
    """
    parent = psutil.Process(pid)
    tree = [parent, *parent.children(recursive=True)]
    before = {p.pid: _cpu_seconds(p) for p in tree}
    parent_alive = _wait(parent, seconds)
    if not parent_alive:
        raise RuntimeError("the watched process ended")
    spent = sum(_cpu_seconds(p) - before[p.pid] for p in tree if p.is_running())
    memory = [p.memory_full_info() for p in tree if p.is_running()]
    return {
        "cpu_cores": round(spent / seconds, 3),
        "rss_mib": round(sum(m.rss for m in memory) / 2**20),
        "pss_mib": round(sum(m.pss for m in memory) / 2**20),
        "processes": len(memory),
    }


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _wait(process: psutil.Process, seconds: float) -> bool:
    try:
        process.wait(timeout=seconds)
    except psutil.TimeoutExpired:
        return True
    return False
