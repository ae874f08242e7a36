"""Real nodes, and an empty queue."""

from __future__ import annotations

from pathlib import Path

import pytest

from queue_tables.root import QueueRoot
from tests.support.services.consumer_node import own_queue, start_node

__all__ = ["own_queue", "start_node"]


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    """An empty queue."""
    return QueueRoot.open(str(tmp_path / "queue"))
