"""Checkpoints get the processor time that batches leave."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from jobs.streaming.checkpoints import Checkpoints, when_idle
from lakequeue.records import Version
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import LOG


def _niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_what_waits_for_idle_time_has_a_low_priority_and_its_caller_keeps_its_own() -> None:
    before = _niceness()
    assert when_idle(_niceness) == max(before, 10)
    assert _niceness() == before


def test_what_it_raises_is_the_callers() -> None:
    with pytest.raises(ZeroDivisionError):
        when_idle(lambda: 1 // 0)


def test_a_checkpoint_is_written_every_so_many_commits_at_low_priority(tmp_path: Path) -> None:
    root = QueueRoot.open(str(tmp_path / "queue"))
    written: list[int] = []

    def checkpoint(_root: QueueRoot, _path: str) -> Version:
        written.append(_niceness())
        return Version(10)

    checkpoints = Checkpoints(root, LOG.name, 10, checkpoint)
    for version in (9, 10, 19):
        checkpoints.write_if_due(Version(version))
    assert len(written) == 1
    assert written[0] >= 10
