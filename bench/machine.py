"""What a figure was measured on: machine, its speed, versions, moment."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median, quantiles
from typing import TypedDict

import numpy as np
import psutil

_PACKAGES = ("lakequeue", "pyspark", "delta-spark", "deltalake", "pyarrow", "kazoo", "flask")


_ADDITIONS = 5_000_000
_SYNCS, _SYNC_BYTES = 200, 1_000
_COPY_BYTES = 256 << 20
BUSY = 0.25
"""A load above this share of the cores, before we begin: others use the machine as well."""
_WATCHED_S = 2.0


class Speed(TypedDict):
    """What the machine can do without us. Figures are given in loops beside seconds: two machines
    differ in these numbers, and figures in loops much less."""

    loop_s: float
    """A loop of 5,000,000 additions in Python, on one core."""
    fdatasync_p50_ms: float
    fdatasync_p99_ms: float
    """1 kB appended to a file and synced."""
    copy_gb_per_s: float
    """256 MiB copied in memory."""
    load: float
    """Cores in use for two seconds before anything of ours ran. Not the system's load average: that
    is of minutes, and has what a benchmark before this one did."""


class Machine(TypedDict):
    """Rendered into every result file."""

    measured_at: str
    cores: int
    memory_gib: float
    kernel: str
    python: str
    versions: dict[str, str]
    speed: Speed


def _loop(additions: int) -> None:
    total = 0
    for number in range(additions):
        total += number


def _timed(work: Callable[[], object], times: int) -> float:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return median(took)


def _syncs(folder: Path, count: int) -> list[float]:
    """Milliseconds of each."""
    took, block = [], os.urandom(_SYNC_BYTES)
    with (folder / "synced").open("wb", buffering=0) as file:
        for _ in range(count):
            began = time.perf_counter()
            file.write(block)
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - began) * 1e3)
    return took


def speed(
    times: int = 5,
    additions: int = _ADDITIONS,
    syncs: int = _SYNCS,
    copied_bytes: int = _COPY_BYTES,
) -> Speed:
    """Measured in about five seconds, in the folder in which the bench puts its queues."""
    load = psutil.cpu_percent(_WATCHED_S) / 100 * (os.cpu_count() or 1)
    source, target = (np.ones(copied_bytes, np.uint8) for _ in range(2))
    with tempfile.TemporaryDirectory() as folder:
        took = _syncs(Path(folder), syncs)
    return {
        "loop_s": round(_timed(lambda: _loop(additions), times), 4),
        "fdatasync_p50_ms": round(median(took), 3),
        "fdatasync_p99_ms": round(quantiles(took, n=100)[-1], 3),
        "copy_gb_per_s": round(
            copied_bytes / 1e9 / _timed(lambda: np.copyto(target, source), times), 2
        ),
        "load": round(load, 2),
    }


class Calibration(TypedDict):
    """How fast the machine is just now. It says what absolute figures of two runs are worth."""

    loop_ms: float
    """The loop of `Speed`."""
    load_average: float


def calibrated() -> Calibration:
    """The loop alone, where each part of a benchmark is to have it."""
    return {
        "loop_ms": round(_timed(lambda: _loop(_ADDITIONS), 5) * 1_000, 1),
        "load_average": round(os.getloadavg()[0], 1),
    }


def sentence(where: Machine) -> str:
    """The machine and its speed, for people."""
    found, memory = where["speed"], where["memory_gib"]
    busy = found["load"] > BUSY * where["cores"]
    return (
        f"Machine: {where['cores']} cores, {memory:.0f} GiB, local disk, Linux {where['kernel']}, "
        f"Python {where['python']}. Its speed: a loop of 5,000,000 additions in Python takes "
        f"{found['loop_s']:.3f} s, fdatasync of 1 kB {found['fdatasync_p50_ms']:.2f} ms (p99 "
        f"{found['fdatasync_p99_ms']:.2f}), memory is copied at {found['copy_gb_per_s']:.1f} GB/s."
        + (
            f" **Others used the machine as well** ({found['load']:.1f} cores in use before): do "
            "not quote these figures."
            if busy
            else ""
        )
    )


def announce() -> None:
    """Say what the machine can do just now, beside figures that are only printed."""
    sys.stderr.write(f"{sentence(describe())}\n")


def describe() -> Machine:
    """The machine this runs on, now."""
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count() or 0,
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in _PACKAGES},
        "speed": speed(),
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
