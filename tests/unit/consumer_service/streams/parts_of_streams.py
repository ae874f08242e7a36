"""Rows, partitions and members of a stream group, for tests of its delivery."""

from __future__ import annotations

import pyarrow as pa

from consumer_service.members import Member
from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.ownership.partition_states import PartitionState
from consumer_service.reading import encode
from lakequeue.records import Format, Partition, TopicId
from lakequeue.wire import JoinRequest
from queue_rules.groups.member_states import Liveness, MemberState
from queue_rules.streams.cursor import Cursor
from queue_tables.groups.facts import Key
from queue_tables.schema.schemas import LOG


def log_rows(first: int, end: int) -> pa.Table:
    """As a tailer reads them."""
    some = list(range(first, end))
    plain = {
        "topic_id": "t", "topic": "orders", "partition": 0, "key": None, "value": b"v",
        "key_format": int(Format.TEXT), "value_format": int(Format.TEXT), "headers": [],
        "timestamp": 0, "message_id": "m", "deliver_at": None, "expires_at": None,
    }  # fmt: skip
    schema = pa.schema([LOG.arrow.field(name) for name in encode.COLUMNS])
    return pa.Table.from_pylist([plain | {"offset": n} for n in some], schema=schema)


def owned(partition: int, delivered: int = 0) -> OwnedPartition:
    key = Key("g", TopicId("t"), Partition(partition))
    return OwnedPartition(
        key, "orders", "m", PartitionState.OWNED, cursor=Cursor(0, delivered=delivered)
    )


def member() -> Member:
    made = Member("g", "m", JoinRequest(topics=["orders"]), 6_000, Liveness(6, 60, 0, 0))
    made.state = MemberState.ACTIVE
    return made
