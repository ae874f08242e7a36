"""What is said of a partition before it is let go, and how often."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

from consumer_service.ownership.journal import Entry, Journal
from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.ownership.unflushed_facts import flush_facts
from lakequeue.records import Partition, TopicId
from queue_rules.queues.attempts import NewRecord
from queue_rules.queues.partition import QueuePartition
from queue_rules.queues.retry_policy import RetryPolicy
from queue_tables.groups.facts import Fact, Key, Kind
from queue_tables.groups.record_states import unopened_in


class Slow:
    """A journal whose commits take long."""

    def __init__(self) -> None:
        self.said: list[tuple[Kind, int, int]] = []
        """Kind, offset, attempts that do not count."""
        self.futures: list[Future[object]] = []

    def submit(self, facts: list[Fact]) -> tuple[Entry, Future[object]]:
        self.said += [(one.kind, int(one.offset or 0), unopened_in(one.reason)) for one in facts]
        self.futures.append(Future())
        return Entry(facts), self.futures[-1]


def test_a_partition_is_let_go_though_its_commit_takes_longer_than_a_look() -> None:
    slow, owned = Slow(), OwnedPartition(Key("g", TopicId("t"), Partition(0)), "orders", "n")
    lease: Any = SimpleNamespace(epoch=1, trusted=lambda: True)
    owned.lease, owned.queue = lease, QueuePartition(RetryPolicy())
    owned.queue.take_new(1, "a", 3, [NewRecord(0), NewRecord(1), NewRecord(2)])
    journal = cast("Journal", slow)
    owned.queue.give_back([(0, 1)])
    for _ in range(3):
        flush_facts(owned, journal)
    assert slow.said == [(Kind.PARKED, 0, 1)], "each look would wait for one more"
    owned.queue.give_back([(0, 1), (2, 1)])
    flush_facts(owned, journal)
    assert slow.said[1:] == [(Kind.PARKED, 2, 1)], "what came meanwhile"
    for future in slow.futures:
        future.set_result(None)
    assert owned.settle(0)
