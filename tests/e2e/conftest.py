"""A whole queue for the tests of this folder: every process real, started once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakequeue.client.admin import Admin
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two consumer-service nodes, two drivers (one stands by), one ingest node, ZooKeeper."""
    root = tmp_path_factory.mktemp("queue")
    options = ClusterOptions(root=str(root / "root"), consumer_nodes=2, drivers=2)
    with Cluster(options) as running:
        running.wait_ready()
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    """Topics and groups of that queue."""
    with Admin(cluster.ingest_urls, cluster.consumer_urls, timeout_s=30) as open_admin:
        yield open_admin


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Where the processes of one test record what they saw."""
    folder = tmp_path / "history"
    folder.mkdir()
    return folder
