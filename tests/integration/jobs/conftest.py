from __future__ import annotations

from pathlib import Path

import pytest

from queue_tables.root import QueueRoot
from tests.support.data.log_builder import LogBuilder
from tests.support.data.wall import Wall


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    """An empty queue."""
    return QueueRoot.open(str(tmp_path / "queue"))


@pytest.fixture
def log(root: QueueRoot, time: Wall) -> LogBuilder:
    """Commits of `log` at the time that a file's `time` says."""
    return LogBuilder(root, wall=time)
