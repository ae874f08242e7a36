"""Nothing that is refused, or goes wrong, keeps other dead letters from being sent."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from consumer_service.holding.held import Held
from consumer_service.holding.partition_states import PartitionState
from consumer_service.queues import dead_letters
from consumer_service.queues.attempts import Attempt, Standing
from consumer_service.queues.dead_letters import DeadLetters
from consumer_service.queues.partition import QueuePartition
from consumer_service.queues.retry_policy import Policy
from lakequeue.errors import TooLarge
from lakequeue.records import Partition, TopicId
from queue_tables.facts import Key


def partition(dying: int) -> Held:
    held = Held(Key("g", TopicId("t"), Partition(0)), "orders", "n", PartitionState.OWNED)
    held.queue = QueuePartition(Policy())
    for offset in range(dying):
        one = Attempt(offset, 1, 0, 0, standing=Standing.DYING, written=True)
        held.queue.dying[offset] = one
    return held


def letters(held: Held, target_of: Any) -> DeadLetters:
    nobody = cast("Any", None)
    return DeadLetters(nobody, nobody, nobody, lambda: [held], target_of, list, lambda _: None)


def test_an_error_that_nobody_foresaw_does_not_end_the_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dead_letters, "RETRY_S", 0.001)
    calls = 0
    again = threading.Event()

    def target_of(_: Held) -> str:
        nonlocal calls
        calls += 1
        if calls > 1:
            again.set()
        raise KeyError("unforeseen")

    made = letters(partition(1), target_of)
    made.start()
    made.look()
    assert again.wait(10)
    assert made.failure == "'unforeseen'"
    made.stop()


def test_a_record_that_is_refused_for_good_does_not_hold_up_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = partition(5)
    made = letters(held, lambda _: "dlq")
    queue = held.queue
    assert queue is not None

    def bury(_: Held, some: list[Attempt]) -> None:
        if any(one.offset in {0, 3} for one in some):
            raise TooLarge("a record is too large")
        for one in some:
            del queue.dying[one.offset]

    monkeypatch.setattr(made, "_bury", bury)
    for _ in range(8):
        try:
            made.step(held)
        except TooLarge:
            continue
    assert sorted(queue.dying) == [0, 3]
