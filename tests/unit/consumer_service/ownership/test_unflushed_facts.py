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
        self.attempts: list[int | None] = []
        self.futures: list[Future[object]] = []

    def submit(self, facts: list[Fact]) -> tuple[Entry, Future[object]]:
        self.said += [(one.kind, int(one.offset or 0), unopened_in(one.reason)) for one in facts]
        self.attempts += [one.attempt for one in facts]
        self.futures.append(Future())
        return Entry(facts), self.futures[-1]


def owned_with(delivered: int) -> OwnedPartition:
    """A partition of which a worker has so many records."""
    owned = OwnedPartition(Key("g", TopicId("t"), Partition(0)), "orders", "n")
    lease: Any = SimpleNamespace(epoch=1, trusted=lambda: True)
    owned.lease, owned.queue = lease, QueuePartition(RetryPolicy())
    owned.queue.take_new(1, "a", delivered, [NewRecord(n) for n in range(delivered)])
    return owned


def test_what_came_back_is_said_though_it_has_just_been_taken_again_and_never_leaves() -> None:
    slow, owned = Slow(), owned_with(2)
    journal, queue = cast("Journal", slow), owned.queue
    assert queue is not None
    queue.give_back([(0, 1)])
    (taken,) = queue.take_again(2, "b", 1).deliver
    flush_facts(owned, journal)
    assert slow.said == [(Kind.PARKED, 0, 1)]
    assert slow.attempts == [1], "if the second is committed, that is what counts"
    queue.never_left([taken])
    flush_facts(owned, journal)
    assert slow.attempts == [1]


def test_what_comes_back_later_is_said_as_well() -> None:
    slow, owned = Slow(), owned_with(1)
    journal, queue = cast("Journal", slow), owned.queue
    assert queue is not None
    queue.give_back([(0, 1)])
    queue.take_again(2, "b", 1)
    flush_facts(owned, journal)
    queue.give_back([(0, 2)])
    flush_facts(owned, journal)
    assert slow.said == [(Kind.PARKED, 0, 1), (Kind.PARKED, 0, 2)]
    assert slow.attempts == [1, 2]


def test_a_partition_is_let_go_though_its_commit_takes_longer_than_a_look() -> None:
    slow, owned = Slow(), owned_with(3)
    journal = cast("Journal", slow)
    assert owned.queue is not None
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
