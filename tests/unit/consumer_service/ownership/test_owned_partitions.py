"""The partitions of a node, by group and by member."""

from __future__ import annotations

from consumer_service.ownership.owned_partition import OwnedPartition, OwnedPartitions
from consumer_service.ownership.partition_states import PartitionState
from lakequeue.records import Partition, TopicId
from queue_tables.groups.facts import Key


def owned(group: str, topic: str, number: int, member: str = "m") -> OwnedPartition:
    key = Key(group, TopicId(topic), Partition(number))
    return OwnedPartition(key, topic, member, PartitionState.OWNED)


def test_a_group_has_its_partitions_in_order_whatever_came_and_went() -> None:
    partitions = OwnedPartitions()
    later, other, first = owned("g", "orders", 1), owned("h", "orders", 0), owned("g", "mail", 3)
    for one in (later, other, first):
        partitions.add(one)
    before = partitions.of_group("g")
    assert before == [first, later]
    assert partitions.of_group("h") == [other]
    assert partitions.of_group("nobody") == []
    again = owned("g", "orders", 1, "other")
    partitions.add(again)
    partitions.remove([later])  # it was replaced: nothing goes
    assert partitions.of_group("g") == [first, again]
    assert partitions.of_member("g", "other") == [again]
    assert before == [first, later], "who looks through a list goes on with what it was"
    partitions.remove([again, first])
    assert partitions.of_group("g") == []
    assert partitions.all() == [other]


def test_what_grows_is_found_by_its_place_in_all_groups() -> None:
    partitions = OwnedPartitions()
    one, other, far = owned("g", "orders", 1), owned("h", "orders", 1), owned("g", "orders", 2)
    for some in (one, other, far):
        partitions.add(some)
    assert partitions.at([one.where]) == [one, other]
    assert partitions.at([far.where, owned("g", "mail", 1).where]) == [far]
    assert partitions.has(TopicId("orders"))
    assert not partitions.has(TopicId("mail"))
    again = owned("g", "orders", 1, "another member")
    partitions.add(again)
    assert partitions.at([one.where]) == [other, again]
    partitions.remove([one, other, far])
    assert partitions.at([one.where, far.where]) == [again]
    partitions.remove([again])
    assert not partitions.has(TopicId("orders"))
