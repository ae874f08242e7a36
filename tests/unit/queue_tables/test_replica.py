"""Names of copied files, and positions without the source's journals."""

from __future__ import annotations

import pytest

from lakequeue.records import Epoch, Offset, Partition, ShardName, TopicId
from queue_tables.groups.facts import GroupState, Word
from queue_tables.replica import copy_path, new_run, origin_of, without_shards


@pytest.mark.parametrize(
    "path", ["hour=2013-01-31T07/part-a.snappy.parquet", "part-a.zstd.parquet"]
)
def test_a_copy_tells_its_origin_also_if_that_is_a_copy(path: str) -> None:
    once, twice = copy_path(path, new_run()), copy_path(copy_path(path, new_run()), new_run())
    assert once != path
    assert (origin_of(once), origin_of(origin_of(twice)), origin_of(path)) == (path, path, path)


def test_a_position_keeps_its_epoch_and_forgets_the_journals() -> None:
    state = GroupState(
        "g",
        TopicId("t"),
        Partition(0),
        committed_offset=Offset(7),
        epoch=Epoch(5),
        owner_shard=ShardName("c-1"),
        member="m",
        holders={ShardName("c-1"): Word(Epoch(6), True)},
    )
    left = without_shards(state)
    assert (left.committed_offset, left.holders, left.owner_shard, left.member) == (7, {}, "", "")
    assert left.highest_epoch == 6
