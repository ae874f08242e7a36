"""Nothing that is refused, or goes wrong, keeps other dead letters from being sent."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any, cast

import pytest

from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.ownership.partition_states import PartitionState
from consumer_service.queues.dead_letters import DeadLetters
from lakequeue import metrics
from lakequeue.errors import TooLarge
from lakequeue.records import Partition, TopicId, checked_name
from lakequeue.wire import default_dead_letters
from queue_rules.queues import refused_letters
from queue_rules.queues.attempts import Attempt, Standing
from queue_rules.queues.partition import QueuePartition
from queue_rules.queues.retry_policy import RetryPolicy
from queue_tables.groups.facts import Key


def partition(dying: int) -> OwnedPartition:
    owned = OwnedPartition(
        Key("g", TopicId("t"), Partition(0)), "orders", "n", PartitionState.OWNED
    )
    owned.queue = QueuePartition(RetryPolicy())
    for offset in range(dying):
        one = Attempt(offset, 1, 0, 0, standing=Standing.DYING, written=True)
        owned.queue.dying[offset] = one
    return owned


def letters(owned: OwnedPartition, target_of: Any) -> DeadLetters:
    nobody = cast("Any", None)
    return DeadLetters(nobody, nobody, nobody, lambda: [owned], target_of, list, lambda _: None)


def test_an_error_that_nobody_foresaw_does_not_end_the_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refused_letters, "FIRST_PAUSE_S", 0.001)
    calls = 0
    again = threading.Event()

    def target_of(_: OwnedPartition) -> str:
        nonlocal calls
        calls += 1
        if calls > 1:
            again.set()
        raise KeyError("unforeseen")

    owned = partition(1)
    made = letters(owned, target_of)
    made.start()
    made.wake()
    assert again.wait(10)
    oldest = owned.refused_letters.oldest
    assert oldest is not None
    assert oldest.why == "'unforeseen'"
    made.stop()


def test_a_record_that_is_refused_for_good_does_not_hold_up_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owned = partition(5)
    made = letters(owned, lambda _: "dlq")
    queue = owned.queue
    assert queue is not None

    def settle_dead(_: OwnedPartition, some: list[Attempt]) -> None:
        if any(one.offset in {0, 3} for one in some):
            raise TooLarge("a record is too large")
        for one in some:
            del queue.dying[one.offset]

    monkeypatch.setattr(made, "_settle_dead", settle_dead)
    for _ in range(8):
        with suppress(TooLarge):
            made.step(owned)
    assert sorted(queue.dying) == [0, 3]
    assert made.step(owned) is False, "they have a pause"
    (sample,) = made.samples()
    assert (sample.metric, sample.labels) == (metrics.consumer.DEAD_LETTERS_REFUSED, ("g",))


def test_a_refused_letter_is_tried_again_with_growing_pauses_and_known_since_the_first() -> None:
    refused = refused_letters.RefusedLetters()
    pauses = []
    now_s = 0.0
    for tries in range(1, 10):
        refused.refused([7], f"try {tries}", now=100 + tries, now_s=now_s)
        assert refused.due([7, 8], now_s) == [8]
        next_s = refused.next_s
        assert next_s is not None
        pauses.append(next_s - now_s)
        now_s = next_s
        assert refused.due([7, 8], now_s) == [7, 8]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    oldest = refused.oldest
    assert oldest is not None
    assert (oldest.since, oldest.why) == (101, "try 9")
    refused.keep_only([8])
    assert (refused.oldest, refused.next_s, len(refused)) == (None, None, 0)


def test_the_default_dead_letter_topic_of_the_longest_name_is_a_name() -> None:
    plain = default_dead_letters("orders")
    longest = default_dead_letters("x" * 249)
    assert plain == "orders.dlq"
    assert checked_name(longest, "topic") == longest
    assert longest.endswith(".dlq")
    assert default_dead_letters("x" * 245) == "x" * 245 + ".dlq"
    assert longest != default_dead_letters("x" * 248 + "y")
