"""An appender whose shard was taken from it, and whose storage fails at that very moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.commit.appender import Appender, Submission
from ingest.commit.pending_offsets import PendingOffsets
from lakequeue.clock import HybridClock, wall_micros
from lakequeue.errors import LakequeueError, StorageUnavailable
from lakequeue.records import ShardName
from queue_rules.produce.rows import Request, Rows
from queue_tables.delta.actions import Txn
from queue_tables.delta.store import LocalStore, Store
from queue_tables.delta.table import TableLog
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import seal_shard
from queue_tables.topics import TopicStore
from queue_tables.upkeep.delta_rs import checkpoint_table
from tests.support.faults.faulty_store import Fault, FaultyStore


def as_it_is(inner: Store, path: str, data: bytes) -> None:
    inner.put_new(path, data)


def away(_inner: Store, _path: str, _data: bytes) -> None:
    raise StorageUnavailable("connection refused")


def one_record(topic_id: str) -> list[Submission]:
    rows = Rows([None], [0], [b"v"], [0], None, [0], [wall_micros()], [None], sizes=[1])
    return [Submission([Request(topic_id, rows, placed_among=1)])]


def sealed_and_cleaned_up(root: QueueRoot, shard: str) -> None:
    """What a node finds that slept for long: the name of its next commit is free again."""
    path = f"inbox/{shard}"
    seal_shard(root, "inbox", ShardName(shard))
    newest = TableLog(root.store, path).open().commit([Txn("upkeep", 1)])
    checkpoint_table(root, path)
    for version in range(newest):
        root.store.delete(f"{path}/_delta_log/{version:020d}.json")


@pytest.mark.parametrize("faults", [[as_it_is], [as_it_is, away]], ids=["well", "away"])
def test_what_may_be_in_the_old_shard_is_never_said_not_to_be_stored(
    tmp_path: Path, faults: list[Fault]
) -> None:
    store = FaultyStore(LocalStore(tmp_path))
    root = QueueRoot.over(store)
    topics = TopicStore(root)
    topic, _ = topics.create("orders", partitions=1)
    appender = Appender(root, "n", HybridClock(), PendingOffsets(), topics, wall_micros)
    slept = appender.commit(one_record(topic.topic_id)).shard
    sealed_and_cleaned_up(root, slept)
    store.faults = faults
    with pytest.raises(LakequeueError) as refused:
        appender.commit(one_record(topic.topic_id))
    assert refused.value.stored == "unknown"
    assert refused.value.retryable
    assert appender.commit(one_record(topic.topic_id)).shard != slept
