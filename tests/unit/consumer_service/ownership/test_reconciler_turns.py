"""Whose lease is taken first when many wait."""

from __future__ import annotations

from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.ownership.reconciler import in_turns
from lakequeue.records import Partition, TopicId
from queue_tables.groups.facts import Key


def test_a_group_of_many_partitions_does_not_hold_up_one_of_few() -> None:
    keys = [Key("many", TopicId("t"), Partition(p)) for p in range(5)]
    keys += [Key("few", TopicId("t"), Partition(p)) for p in range(2)]
    turns = in_turns(OwnedPartition(key, "t", "member") for key in keys)
    assert [(owned.key.group, owned.key.partition) for owned in turns] == [
        *(("many", 0), ("few", 0), ("many", 1), ("few", 1)),
        *(("many", 2), ("many", 3), ("many", 4)),
    ]
