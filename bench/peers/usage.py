"""What trees of processes have used: CPU, bytes written, memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import NamedTuple

import psutil


class Used(NamedTuple):
    """Sums over trees of processes since they began."""

    cpu_s: float
    written_bytes: int

    def __sub__(self, before: Used) -> Used:
        return Used(self.cpu_s - before.cpu_s, self.written_bytes - before.written_bytes)


def tree(roots: Iterable[int]) -> list[psutil.Process]:
    """Those processes and all below them, each once."""
    found: dict[int, psutil.Process] = {}
    for pid in roots:
        with contextlib.suppress(psutil.NoSuchProcess):
            root = psutil.Process(pid)
            found |= {each.pid: each for each in (root, *root.children(recursive=True))}
    return list(found.values())


def used(roots: Iterable[int]) -> Used:
    """CPU with that of children that have ended, and bytes that were caused to be written."""
    cpu_s, written = 0.0, 0
    for process in tree(roots):
        with contextlib.suppress(psutil.NoSuchProcess):
            cpu_s += sum(process.cpu_times()[:4])
            written += process.io_counters().write_bytes
    return Used(cpu_s, written)


def cpu_s(pids: Iterable[int]) -> float:
    """CPU of these processes alone."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(psutil.Process(pid).cpu_times()[:2])
    return total


def pss_mib(roots: Iterable[int]) -> int:
    """Memory; pages that processes share are divided among them."""
    total = 0
    for process in tree(roots):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += process.memory_full_info().pss
    return round(total / 2**20)
