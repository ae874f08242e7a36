"""Acks that a worker brings along with its polls, run by hand."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import orjson
import pytest

from lakequeue.calling.effects import Http, Reply, Wait
from lakequeue.calling.nodes import Nodes
from lakequeue.client.consuming.membership import ConsumeOptions, Membership
from lakequeue.client.consuming.queue_core import QueueConsuming
from lakequeue.client.message import Message
from lakequeue.errors import (
    AttemptSuperseded,
    CoordinationUnavailable,
    LakequeueError,
    Rejected,
    UnknownMember,
)
from lakequeue.wire import JoinRequest

Poll = Generator[Any, Any, None]


def raw(offset: int) -> dict[str, Any]:
    receipt = f"q.t.0.{offset}.0.1.1"
    return {"topic": "orders", "partition": 0, "offset": offset, "receipt": receipt, "attempt": 1}


class Worker:
    """A worker with a membership, whose requests the test answers."""

    def __init__(self, ahead: int = 2) -> None:
        self.now = 100.0
        self.core = QueueConsuming(
            Nodes("http://a"),
            "mailer",
            JoinRequest(topics=["orders"], mode="queue"),
            ConsumeOptions(max_poll_records=ahead),
            lambda: self.now,
            lambda: None,
            None,
            None,
            60.0,
        )
        self.member = Membership("m", Nodes("http://a"), 60.0, 100.0)
        self.core.member = self.member
        self.polls = 0
        self.scripts: list[Poll] = []
        """What is under way: a script that is dropped has ended."""

    def asks(self) -> tuple[Poll, Http]:
        script = self.core._poll(self.member)
        self.scripts.append(script)
        asked = next(script)
        assert isinstance(asked, Http)
        return script, asked

    def answers(self, script: Poll, *offsets: int, **more: Any) -> None:
        self.polls += 1
        body = {"records": [raw(n) for n in offsets], "poll": self.polls, "assignment": []}
        with pytest.raises(StopIteration):
            script.send(Reply(200, {}, orjson.dumps(body | more)))

    def fails(self, script: Poll, error: LakequeueError, status: int) -> Any:
        return script.send(Reply(status, {}, orjson.dumps(error.to_problem())))

    def flows(self) -> list[Message]:
        """One poll has brought all it asked for; its records are handed out."""
        script, asked = self.asks()
        assert asked.request.method == "GET"
        self.answers(script, 0, 1)
        return [m for _ in range(2) if (m := self.core.next()) is not None]

    def keeps(self) -> Any:
        self.scripts.append(self.core.keep())
        return next(self.scripts[-1])


def said(asked: Http) -> Any:
    return orjson.loads(asked.request.body or b"")


def test_while_records_flow_a_poll_brings_what_is_to_be_said_and_does_not_wait() -> None:
    worker = Worker()
    first, second = worker.flows()
    first.ack()
    second.nack(1.0)
    script, asked = worker.asks()
    assert (asked.request.method, asked.request.path) == (
        "POST",
        "/v1/groups/mailer/members/m/records",
    )
    body = said(asked)
    assert (body["acks"], body["nacks"]) == (
        [first.receipt],
        [{"receipt": second.receipt, "delay_ms": 1_000}],
    )
    assert (body["max"], body["wait_ms"], body["after"]) == (2, 0, 1)
    assert not worker.core.settled(2)
    worker.answers(script, 2, settled=[], refused=[])
    assert worker.core.settled(2)
    assert worker.core.buffer.ready == 1


def test_where_none_may_be_left_a_poll_waits_and_acks_leave_by_themselves() -> None:
    worker = Worker()
    worker.answers(worker.asks()[0], 0)
    message = worker.core.next()
    assert message is not None
    message.ack()
    _, asked = worker.asks()
    assert asked.request.method == "GET"
    by_itself = worker.keeps()
    assert isinstance(by_itself, Http)
    assert said(by_itself)["acks"] == [message.receipt]


@pytest.mark.parametrize("hurry", ["commit", "close"])
def test_whoever_waits_for_acks_does_not_wait_for_records(hurry: str) -> None:
    worker = Worker()
    worker.flows()[0].ack()
    if hurry == "commit":
        worker.core.committing = 1
    else:
        worker.core.stop()
    assert worker.asks()[1].request.method == "GET"


def test_two_requests_never_settle_at_once() -> None:
    worker = Worker()
    first, second = worker.flows()
    first.ack()
    script, _ = worker.asks()
    second.extend(60)
    worker.now += 1.0
    asleep = worker.keeps()
    assert isinstance(asleep, Wait), "the extension follows when the poll is answered"
    assert not asleep.until()
    worker.answers(script, settled=[], refused=[])
    assert asleep.until()
    # And the other way round: what is under way is not overtaken by a poll.
    assert isinstance(worker.keeps(), Http)
    second.ack()
    worker.core._in_flow = True
    assert worker.asks()[1].request.method == "GET"


def test_a_receipt_that_is_refused_is_told_as_by_the_call_for_acks() -> None:
    worker = Worker()
    message = worker.flows()[0]
    message.ack()
    script, _ = worker.asks()
    refused = {"receipt": message.receipt, "why": "superseded", "attempt": 1, "current_attempt": 2}
    worker.answers(script, settled=[], refused=[refused])
    with pytest.raises(AttemptSuperseded, match="attempt 1 presented, 2 current"):
        raise worker.core.buffer.take_refusal() or AssertionError


def test_what_is_not_stored_is_said_again_and_what_is_stored_is_not() -> None:
    for stored, again in (("no", True), ("yes", False)):
        worker = Worker()
        worker.flows()[0].ack()
        script, _ = worker.asks()
        error = UnknownMember("m is unknown", hint="join again", stored=stored)  # type: ignore[arg-type]
        with pytest.raises(UnknownMember):
            worker.fails(script, error, 404)
        assert worker.core.buffer.has_acks == again
        assert worker.core.settled(1) != again


def test_a_service_that_is_away_is_asked_again_with_the_same() -> None:
    worker = Worker()
    worker.flows()[0].ack()
    script, asked = worker.asks()
    away = CoordinationUnavailable("no quorum", hint="try again", stored="unknown")
    assert isinstance(worker.fails(script, away, 503), Wait)
    again = script.send(True)
    assert isinstance(again, Http)
    assert said(again) == said(asked)


def test_services_of_an_earlier_release_are_told_by_the_call_that_they_know() -> None:
    worker = Worker()
    message = worker.flows()[0]
    message.ack()
    script, _ = worker.asks()
    with pytest.raises(StopIteration):
        worker.fails(script, Rejected("the method is not allowed"), 405)
    worker.now += 1.0
    by_itself = worker.keeps()
    assert isinstance(by_itself, Http)
    assert said(by_itself)["acks"] == [message.receipt]
    worker.core._in_flow = True
    assert worker.asks()[1].request.method == "GET"


def test_the_keeper_sleeps_while_a_poll_brings_acks_though_something_has_to_be_renewed() -> None:
    worker = Worker()
    first, second = worker.flows()
    first.ack()
    script, _ = worker.asks()
    worker.now += worker.core.buffer.visibility_s / 2
    asleep = worker.keeps()
    assert isinstance(asleep, Wait)
    assert not asleep.until(), "an event loop would do nothing else, and never read the answer"
    assert asleep.timeout_s is not None
    worker.answers(script, 2, 3, settled=[], refused=[])
    assert asleep.until()
    renewal = worker.scripts[-1].send(True)
    assert isinstance(renewal, Http)
    assert [one["receipt"] for one in said(renewal)["extend"]] == [second.receipt]


def test_the_keeper_sleeps_while_a_poll_brings_acks_though_something_has_to_go_back() -> None:
    worker = Worker(ahead=4)
    worker.answers(worker.asks()[0], 0, 1, 2, 3)
    message = worker.core.next()
    assert message is not None
    message.ack()
    script, _ = worker.asks()
    worker.core.stop()
    last = worker.core.last_said(3.0)
    assert isinstance(next(last), Wait)
    asleep = worker.keeps()
    assert isinstance(asleep, Wait)
    assert not asleep.until(), "as above"
    worker.answers(script, settled=[], refused=[])
    assert asleep.until()
    back = worker.scripts[-1].send(True)
    assert isinstance(back, Http)
    assert len(said(back)["nacks"]) == 3
