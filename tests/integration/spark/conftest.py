from __future__ import annotations

from pathlib import Path

import pytest

from queue_tables.root import QueueRoot


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    """An empty queue."""
    return QueueRoot.open(str(tmp_path / "queue"))
