"""What a figure was measured on: machine, versions, moment."""

from __future__ import annotations

import os
import platform
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
