"""What an answer says of several partitions' facts is true of all of them."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest

from consumer_service.ownership.journal import Entry
from consumer_service.ownership.owned_partition import OwnedPartition, OwnedPartitions
from consumer_service.ownership.partition_states import PartitionState
from consumer_service.queues.acks import QueueAcks
from consumer_service.queues.due_timer import DueTimer
from consumer_service.queues.waiters import Waiters
from lakequeue.clock import wall_micros
from lakequeue.errors import AttemptSuperseded, Overloaded, UnknownTopic
from lakequeue.records import Partition, TopicId
from lakequeue.wire import AckRequest, Extend, QueueReceipt, group_checksum
from queue_rules.queues.attempts import NewRecord, returned_moves
from queue_rules.queues.partition import QueuePartition
from queue_rules.queues.retry_policy import RetryPolicy
from queue_tables.groups.facts import Fact, Key
from serving.front.parking import finish


def partition(number: int) -> OwnedPartition:
    lease = cast("Any", SimpleNamespace(epoch=1, trusted=lambda: True))
    key = Key("g", TopicId("t"), Partition(number))
    owned = OwnedPartition(key, "orders", "n", PartitionState.OWNED, lease, mode="queue")
    owned.queue = QueuePartition(RetryPolicy())
    owned.queue.take_new(wall_micros(), "m", 1, [NewRecord(0)])
    return owned


@pytest.mark.parametrize("how", ["refuses", "fails"])
@pytest.mark.parametrize(("partitions", "stored"), [(1, "no"), (2, "unknown")])
def test_an_error_of_one_partition_says_nothing_of_anothers(
    how: str, partitions: int, stored: str
) -> None:
    calls = 0

    def submit(facts: list[Fact]) -> tuple[Entry, Future[object]]:
        nonlocal calls
        calls += 1
        future: Future[object] = Future()
        if calls < partitions:
            future.set_result(None)
        elif how == "refuses":
            raise Overloaded("busy", stored="no")
        else:
            future.set_exception(Overloaded("busy", stored="no"))
        return Entry(facts), future

    owned_partitions, waiters = OwnedPartitions(), Waiters()
    for number in range(partitions):
        owned_partitions.add(partition(number))
    timer = DueTimer(owned_partitions.queues, waiters)
    parts: Any = (
        SimpleNamespace(submit=submit),
        owned_partitions,
        waiters,
        timer,
        None,
        None,
        lambda: None,
    )
    receipts = [
        str(QueueReceipt("t", number, 0, 0, 1, group_checksum("g"))) for number in range(partitions)
    ]
    with pytest.raises(Overloaded) as refused:
        finish(QueueAcks(*parts).settle("g", AckRequest(acks=receipts), {}))
    assert refused.value.stored == stored


def test_what_is_extended_after_its_consumer_seemed_gone_is_not_told_to_be_free() -> None:
    def submit(facts: list[Fact]) -> tuple[Entry, Future[object]]:
        future: Future[object] = Future()
        future.set_result(None)
        return Entry(facts), future

    owned, owned_partitions, waiters = partition(0), OwnedPartitions(), Waiters()
    owned_partitions.add(owned)
    assert owned.queue is not None
    owned.queue.take_new(wall_micros(), "m", 1, [NewRecord(1)])
    owned.unflushed = returned_moves(owned.queue.member_gone("m"), wall_micros())
    timer = DueTimer(owned_partitions.queues, waiters)
    parts: Any = (
        SimpleNamespace(submit=submit),
        owned_partitions,
        waiters,
        timer,
        None,
        None,
        lambda: None,
    )
    receipt = str(QueueReceipt("t", 0, 0, 0, 1, group_checksum("g")))
    extend = [Extend(receipt=receipt, visibility_timeout_ms=60_000)]
    (settled,) = finish(QueueAcks(*parts).settle("g", AckRequest(extend=extend), {})).settled
    assert settled.deadline is not None
    assert [move.offset for move in owned.unflushed] == [1], (
        "the next owner keeps to the deadline of 0"
    )


def test_receipts_of_a_deleted_topic_do_not_hold_up_those_of_another() -> None:
    owned, owned_partitions, waiters = partition(0), OwnedPartitions(), Waiters()
    owned_partitions.add(owned)
    assert owned.queue is not None
    owned.queue.take_new(wall_micros(), "m", 1, [NewRecord(0)])
    done: Future[object] = Future()
    done.set_result(None)
    journal = SimpleNamespace(submit=lambda facts: (Entry(facts), done))
    timer = DueTimer(owned_partitions.queues, waiters)
    acks = QueueAcks(
        cast("Any", journal),
        owned_partitions,
        waiters,
        timer,
        lambda _: None,
        lambda _: "topic_deleted",
        lambda: None,
    )
    group = group_checksum("g")
    good = str(QueueReceipt("t", 0, 0, 0, 1, group))
    gone = str(QueueReceipt("deleted", 0, 0, 0, 1, group))
    with pytest.raises(AttemptSuperseded) as mixed:
        finish(acks.settle("g", AckRequest(acks=[good, gone]), {}))
    assert [one["receipt"] for one in mixed.value.extra["settled"]] == [good]
    assert [one["why"] for one in mixed.value.extra["refused"]] == ["topic_deleted"]
    with pytest.raises(UnknownTopic, match="deleted"):
        finish(acks.settle("g", AckRequest(acks=[gone]), {}))


def test_an_ack_whose_commit_is_under_way_is_not_given_up() -> None:
    """It has to be told how it ended: a refusal would say that nothing is stored."""
    commits: list[Future[object]] = []

    def submit(facts: list[Fact]) -> tuple[Entry, Future[object]]:
        commits.append(Future())
        return Entry(facts), commits[-1]

    owned, owned_partitions, waiters = partition(0), OwnedPartitions(), Waiters()
    owned_partitions.add(owned)
    timer = DueTimer(owned_partitions.queues, waiters)
    journal = SimpleNamespace(submit=submit)
    parts: Any = (journal, owned_partitions, waiters, timer, None, None, lambda: None)
    receipt = str(QueueReceipt("t", 0, 0, 0, 1, group_checksum("g")))
    steps = QueueAcks(*parts).settle("g", AckRequest(acks=[receipt]), {})
    until = next(steps)
    assert (until.minds, until.gives_back) == (False, False)
    commits[0].set_result(None)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert [one.receipt for one in end.value.value.settled] == [receipt]
