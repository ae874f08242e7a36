"""Every role runs on a read-only root: it writes to the queue, its work folder and /tmp alone."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from coordination.embedded import EmbeddedZooKeeper
from lakequeue import Admin, Consumer, Producer
from tests.support.deployed.read_only import Shut

pytestmark = [
    pytest.mark.zookeeper,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(420),
]
HERE = ("--host", "127.0.0.1", "--port", "0")


@pytest.fixture
def shut() -> Iterator[Shut]:
    folder = Path(tempfile.mkdtemp(prefix="lakequeue-", dir="/var/tmp"))
    yield Shut(folder)
    shutil.rmtree(folder)


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The option that leads there."""
    server = EmbeddedZooKeeper(tmp_path / "zookeeper")
    server.start()
    yield "--zookeeper", server.hosts
    server.stop()


def passes_through(ingest: str, consumer: str) -> None:
    """A record is sent, ordered and read."""
    with Admin(ingest, consumer, timeout_s=60) as admin:
        admin.create_topic("orders", partitions=1)
    with Producer(ingest, acks="ordered") as producer:
        assert producer.send("orders", "there").result(timeout=240).offset == 0
    with Consumer("orders", group="readers", urls=consumer, stop_after=1) as messages:
        for message in messages:
            assert message.value == "there"
            message.ack()


def test_every_role_writes_to_its_volumes_alone(shut: Shut, ensemble: tuple[str, str]) -> None:
    with (
        shut.running("ingest", *HERE, *ensemble) as ingest,
        shut.running("consumer_service", *HERE, *ensemble) as consumer,
        shut.running("jobs.driver", *HERE, *ensemble),
    ):
        passes_through(ingest["url"], consumer["url"])
        found = ("--ingest-url", ingest["url"], "--consumer-url", consumer["url"])
        with shut.running("console", *HERE, *found) as console:
            assert "orders" in httpx2.get(f"{console['url']}/topics", timeout=20).text
