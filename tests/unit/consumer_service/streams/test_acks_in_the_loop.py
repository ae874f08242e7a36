"""An ack of a stream group waits for storage in a thread, and in no event loop."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from consumer_service.members import Member
from consumer_service.ownership.owned_partition import OwnedPartition, OwnedPartitions
from consumer_service.ownership.partition_states import PartitionState
from consumer_service.streams.acks import Acks
from consumer_service.streams.mode import Streams
from lakequeue.errors import LakequeueError
from lakequeue.records import Partition, TopicId
from lakequeue.wire import AckRequest, JoinRequest
from queue_rules.groups.member_states import Liveness
from queue_tables.groups.facts import Key
from serving.front.parking import BLOCKS


@pytest.mark.parametrize("known", [True, False])
def test_where_the_end_of_a_partition_is_not_known_it_is_asked_for_in_a_thread(known: bool) -> None:
    owned_partitions = OwnedPartitions()
    lease: Any = SimpleNamespace(epoch=1, trusted=lambda: True)
    key = Key("g", TopicId("t"), Partition(0))
    owned_partitions.add(OwnedPartition(key, "orders", "m", PartitionState.OWNED, lease))
    asked = threading.Event()

    def end(_: object) -> int:
        asked.set()
        return 0

    parts: Any = (
        None,
        owned_partitions,
        SimpleNamespace(steps=None),
        Acks(SimpleNamespace(), owned_partitions),  # type: ignore[arg-type]
        SimpleNamespace(known=lambda _: SimpleNamespace(topic_id="t"), get=topic_of),
        SimpleNamespace(end=end, known_end=lambda _: 0 if known else None),
    )
    member = Member("g", "m", JoinRequest(topics=["orders"]), 6_000, Liveness(6, 60, 0, 0))
    steps = Streams(*parts).ack(member, AckRequest(acks=["t.0.5.1.1"]))
    if not known:
        assert next(steps) is BLOCKS
        assert not asked.is_set()
    # Nothing was ever delivered.
    with pytest.raises(LakequeueError):
        next(steps)
    assert asked.is_set()


def topic_of(_: str) -> Any:
    return SimpleNamespace(topic_id="t")
