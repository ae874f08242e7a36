from __future__ import annotations

from pathlib import Path

import pytest

from queue_tables.root import QueueRoot
from tests.support.data.log_builder import LogBuilder
from tests.support.spark.source_readers import Reads


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    """An empty queue."""
    return QueueRoot.open(str(tmp_path / "queue"))


@pytest.fixture
def log(root: QueueRoot) -> LogBuilder:
    return LogBuilder(root)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)
