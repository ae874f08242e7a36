"""How often a source that finds nothing asks its storage."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.streaming.leader_state_file import LeaderState, LeaderStateFile
from jobs.streaming.source import ShardReader, SourceOptions
from jobs.streaming.source_note import SourceNote
from lakequeue.records import Epoch
from queue_tables.delta.storage_meter import METER
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import ShardWriter


@pytest.fixture
def reader(tmp_path: Path) -> ShardReader:
    """Of a queue with one inbox shard, for a driver that leads."""
    root = QueueRoot.open(str(tmp_path / "queue"))
    ShardWriter.create(root, "inbox", "node")
    file = LeaderStateFile(tmp_path, "inbox")
    file.create()
    file.write(LeaderState(Epoch(1), {}, None))
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
    return ShardReader(options)


def test_an_idle_source_looks_once_each_time_it_is_asked(
    reader: ShardReader, tmp_path: Path
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
    assert SourceNote(tmp_path, "inbox", 0).read().usage.requests["list"] > 0
