"""Processes that stand still: by `--crash-at step:1:stop`, or stopped here."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.services.zookeeper import wait_for


def is_stopped(pid: int) -> bool:
    """Whether SIGSTOP has stopped all threads: each goes on until it has noticed."""
    return all(_state(task) == "T" for task in Path(f"/proc/{pid}/task").iterdir())


def _state(task: Path) -> str:
    try:
        return (task / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "ended"


def stop(pid: int) -> None:
    """SIGSTOP, and wait until it stands still: a signal is sent before it arrives."""
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: is_stopped(pid), f"{pid} stands still", every_s=0.001)


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """It stands still in the block, and goes on after it."""
    stop(pid)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
