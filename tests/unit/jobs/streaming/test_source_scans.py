"""How often a source that finds nothing asks its storage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.streaming.leader_state import LeaderState
from jobs.streaming.source import ShardReader, SourceOptions
from jobs.streaming.source_channel import DriverEnd
from lakequeue.records import Epoch
from queue_tables.delta.storage_meter import METER
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import ShardWriter
from tests.support.services.zookeeper import wait_for


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[DriverEnd]:
    """It leads."""
    end = DriverEnd(tmp_path, "inbox")
    end.open()
    end.tell(LeaderState(Epoch(1)))
    yield end
    end.close()


@pytest.fixture
def reader(tmp_path: Path, driver: DriverEnd) -> Iterator[ShardReader]:
    """Of a queue with one inbox shard."""
    root = QueueRoot.open(str(tmp_path / "queue"))
    ShardWriter.create(root, "inbox", "node")
    options = SourceOptions(
        root=root.uri,
        folder=tmp_path,
        kind="inbox",
        max_batch_bytes=1 << 20,
        driver_batch_bytes=1 << 20,
        poll_s=0.05,
        min_interval_s=0.0,
        tasks=1,
    )
    made = ShardReader(options)
    yield made
    made.stop()


def test_an_idle_source_looks_once_each_time_it_is_asked(
    reader: ShardReader, driver: DriverEnd
) -> None:
    start: dict[str, int] = {}
    reader.latestOffset(start)  # the rehearsal
    assert reader.latestOffset(start) is start  # opens the shard
    before = METER.snapshot().requests
    asked = 10
    for _ in range(asked):
        assert reader.latestOffset(start) is start
    after = METER.snapshot().requests
    assert after["list"] - before["list"] == asked
    assert after["get"] - before["get"] == asked, "one empty poll of the shard"
    wait_for(lambda: driver.status().usage.requests.get("list"), "what the source has asked for")
