"""When checkpoints are written, and by whom."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from jobs.streaming.checkpoints import Checkpoints
from lakequeue.records import Version
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import LOG


def test_a_checkpoint_is_written_every_so_many_commits_at_the_priority_of_batches(
    tmp_path: Path,
) -> None:
    # At a lower one it keeps the interpreter from the batches whenever others use the cores: they
    # waited for half a second then, and upkeep for ten.
    root = QueueRoot.open(str(tmp_path / "queue"))
    written: list[int] = []

    def checkpoint(_root: QueueRoot, _path: str) -> Version:
        written.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return Version(10)

    checkpoints = Checkpoints(root, LOG.name, 10, checkpoint)
    for version in (9, 10, 19):
        checkpoints.write_if_due(Version(version))
    assert written == [os.getpriority(os.PRIO_PROCESS, threading.get_native_id())]
