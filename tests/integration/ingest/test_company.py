"""Whose sends a node waits for before it commits: a node in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.http.app import create_app
from ingest.http.producing import Producing
from ingest.http.ways import Ways
from ingest.metrics import Metrics
from ingest.node import IngestNode
from lakequeue import wire
from lakequeue.settings import IngestSettings, Settings
from queue_tables.shards import group_commit
from serving.doors.gate import ServiceGate
from serving.host_samples import HostSamples
from tests.support.services.fronts import Running, running

LINGER_S = 60.0
"""No test would wait for it."""
PATH, BODY = "/v1/topics/t/records", b'{"records":[{"value":1}]}'
JSON = "Content-Type: application/json"
GATHERED = f"{wire.GATHERED}: true"


@pytest.fixture
def front(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A node whose linger is long, and may be cut short all the same."""
    monkeypatch.setattr(group_commit, "_SHORT_S", LINGER_S)
    settings = Settings(
        root=str(tmp_path / "root"), ingest=IngestSettings(linger_ms=LINGER_S * 1_000)
    )
    node = IngestNode(settings, "n")
    node.topics.create("t", partitions=1)
    node.committer.start()
    metrics = Metrics(node, HostSamples(settings, None))
    producing = Producing(node, metrics)
    gate = ServiceGate("ingest", settings.access, ["localhost"])
    ways = Ways(settings, node, producing, gate).all()
    with running(create_app(node, metrics, producing), ways) as served:
        yield served
    node.committer.drain()


def test_whoever_has_gathered_sends_again_and_again_without_a_wait(front: Running) -> None:
    alone = front.connect()
    for _ in range(5):
        assert alone.post(PATH, BODY, JSON, GATHERED).status == 200


def test_the_linger_is_a_pace_for_all_others(front: Running) -> None:
    alone = front.connect()
    assert alone.post(PATH, BODY, JSON).status == 200
    alone.socket.settimeout(0.3)
    with pytest.raises(TimeoutError):
        alone.post(PATH, BODY, JSON)
