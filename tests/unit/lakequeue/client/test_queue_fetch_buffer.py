"""What a worker holds and says: each thing until it is answered for good."""

from __future__ import annotations

from typing import Any

import pytest

from lakequeue.client.consuming.queue_fetch_buffer import GIVE_UP_S, QueueFetchBuffer
from lakequeue.client.message import Message
from lakequeue.errors import AttemptSuperseded, InvalidRequest, Unreachable


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def a_record(offset: int, attempt: int = 1) -> dict[str, Any]:
    return {
        "topic": "orders",
        "partition": 0,
        "offset": offset,
        "attempt": attempt,
        "receipt": f"q.t.0.{offset}.0.{attempt}.1",
        "timestamp": 0,
        "key": None,
        "value": "v",
    }


class Worker:
    def __init__(self, records: int, renew_for_s: float = 60.0) -> None:
        self.clock = Clock()
        self.holding = QueueFetchBuffer("g", self.clock, renew_for_s)
        self.holding.visibility_s = 10.0
        self.holding.received([a_record(n) for n in range(records)], self.settle)
        self.messages = [m for _ in range(records) if (m := self.holding.next()) is not None]

    def settle(self, does: Any, message: Message, ms: int | None) -> None:
        self.holding.queue_action(does, message, ms)


def refused(message: Message, why: str, **fields: Any) -> dict[str, Any]:
    return {"receipt": message.receipt, "why": why, "attempt": message.attempt, **fields}


def test_records_are_settled_in_any_order_and_each_by_itself() -> None:
    worker = Worker(3)
    worker.messages[2].ack()
    worker.messages[0].nack(1.5)
    worker.messages[1].extend(60)
    said = worker.holding.take()
    assert [(s.does, s.message.offset, s.ms) for s in said] == [
        ("ack", 2, None),
        ("nack", 0, 1_500),
        ("extend", 1, 60_000),
    ]
    assert (worker.holding.queued, worker.holding.settled) == (3, 0)
    worker.holding.answered(said, [])
    assert worker.holding.settled == 3
    assert worker.holding.take_refusal() is None


def test_what_is_held_is_renewed_at_half_its_time_until_it_is_settled() -> None:
    worker = Worker(2)
    assert worker.holding.next_renewal_in() == 5.0
    worker.messages[0].ack()
    worker.holding.take()
    worker.clock.now += 5.0
    worker.holding.renew()
    said = worker.holding.take()
    assert [(s.does, s.message.offset, s.ms) for s in said] == [("renew", 1, 10_000)]
    assert worker.holding.next_renewal_in() == 5.0


def test_renewal_ends_after_its_time() -> None:
    worker = Worker(1, renew_for_s=7.0)
    worker.clock.now += 8.0
    worker.holding.renew()
    assert worker.holding.take() == []
    assert worker.holding.next_renewal_in() is None


def test_an_ack_that_is_elsewhere_is_sent_there_and_then_again_anywhere() -> None:
    worker = Worker(1)
    worker.messages[0].ack()
    said = worker.holding.take()
    worker.holding.answered(said, [refused(worker.messages[0], "elsewhere", location="http://b:1")])
    assert worker.holding.settled == 0
    again = worker.holding.take()
    assert again[0].url == "http://b:1"
    worker.holding.answered(again, [])
    assert worker.holding.settled == 1


def test_one_request_goes_to_one_node_and_has_each_receipt_once() -> None:
    worker = Worker(2)
    for message in worker.messages:
        message.ack()
    first, second = worker.holding.take()
    second.url = "http://b:1"
    worker.holding.again([first, second], Unreachable("away"))
    assert [len(worker.holding.take()), len(worker.holding.take())] == [1, 1]
    worker.messages[0].extend(20)
    worker.messages[0].ack()
    assert [s.does for s in worker.holding.take()] == ["extend"]
    assert [s.does for s in worker.holding.take()] == ["ack"]


def test_a_superseded_attempt_is_told_with_both_numbers() -> None:
    worker = Worker(1)
    worker.messages[0].ack()
    said = worker.holding.take()
    worker.holding.answered(said, [refused(worker.messages[0], "superseded", current_attempt=3)])
    refusal = worker.holding.take_refusal()
    assert isinstance(refusal, AttemptSuperseded)
    assert "attempt 1 presented, 3 current" in refusal.detail
    assert worker.holding.settled == 1


def test_what_was_not_answered_outlives_the_membership_and_is_given_up_when_too_old() -> None:
    worker = Worker(1)
    worker.messages[0].ack()
    said = worker.holding.take()
    worker.holding.again(said, Unreachable("away"))
    assert worker.holding.lose_all("the node is gone") == []
    assert worker.holding.has_acks
    worker.clock.now += GIVE_UP_S + 1
    worker.holding.again(worker.holding.take(), Unreachable("away"))
    assert worker.holding.take() == []
    assert worker.holding.settled == 1
    assert isinstance(worker.holding.take_refusal(), Unreachable)


def test_what_was_fetched_ahead_is_given_back_unopened_with_the_membership() -> None:
    worker = Worker(1)
    worker.holding.received([a_record(1), a_record(2)], worker.settle)
    worker.holding.lose_all("dropped")
    assert worker.holding.next() is None
    said = worker.holding.take()
    assert [(s.does, s.message.offset) for s in said] == [("return", 1), ("return", 2)]
    assert worker.holding.returning == 2
    # One of them has gone to others meanwhile, which is nobody's error.
    worker.holding.answered(said, [refused(said[0].message, "superseded")])
    assert (worker.holding.returning, worker.holding.take_refusal()) == (0, None)


def test_times_that_make_no_sense_are_refused() -> None:
    worker = Worker(1)
    for delay in (-1.0, 1e12):
        with pytest.raises(InvalidRequest, match="delay_s"):
            worker.messages[0].nack(delay)


def test_nack_and_extend_are_not_for_stream_groups() -> None:
    message = Message(a_record(0), 1, 1, lambda _message, _through: None)
    with pytest.raises(InvalidRequest, match="queue groups"):
        message.nack()
