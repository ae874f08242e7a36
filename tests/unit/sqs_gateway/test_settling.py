"""What is said of receipts to the services."""

from __future__ import annotations

from typing import Any

import pytest

from lakequeue.calling.nodes import Nodes
from lakequeue.errors import AttemptSuperseded, InvalidRequest, NotReady
from serving.front.limits.shares import Pool
from sqs_gateway.calls.messaging import check_deleted
from sqs_gateway.calls.settling import DONE, Action, Settling
from sqs_gateway.rules.errors import SqsError


class Services:
    """Those of a release that may not know of receives that do not count."""

    consumer = Nodes("http://a")

    def __init__(self, *, know: bool) -> None:
        self._know = know
        self.asked: list[Any] = []

    def ask(self, _nodes: Nodes, _method: str, _path: str, body: Any) -> Any:
        self.asked.append(body)
        if not self._know and any("unopened" in one for one in body.get("nacks", ())):
            raise InvalidRequest("nacks.0.unopened: Extra inputs are not permitted", hint="see")
        return {}


ACTIONS = [Action("one", "ack"), Action("two", "return"), Action("three", "give_back")]


def test_what_nobody_has_seen_is_given_back_unopened() -> None:
    services = Services(know=True)
    assert Settling(services, Pool("calls", 2)).settle("g", ACTIONS) == [DONE] * 3  # type: ignore[arg-type]
    (body,) = services.asked
    assert body["acks"] == ["one"]
    assert body["nacks"] == [
        {"receipt": "two", "delay_ms": 0, "unopened": True},
        {"receipt": "three", "delay_ms": 0},
    ]


def test_services_of_an_earlier_release_are_told_what_they_understand() -> None:
    services = Services(know=False)
    assert Settling(services, Pool("calls", 2)).settle("g", ACTIONS) == [DONE] * 3  # type: ignore[arg-type]
    assert services.asked[-1]["acks"] == ["one"]
    assert [one["receipt"] for one in services.asked[-1]["nacks"]] == ["two", "three"]
    assert "unopened" not in services.asked[-1]["nacks"][0]


class Moving:
    """A partition that moves on whenever a receipt has followed it, so many times."""

    consumer = Nodes("http://a")

    def __init__(self, times: int) -> None:
        self._times = times
        self.asked: list[str] = []

    def ask(self, nodes: Nodes, _method: str, _path: str, body: Any) -> Any:
        self.asked.append(nodes.current)
        if len(self.asked) <= self._times:
            there = f"http://node-{len(self.asked)}"
            refused = [
                {"receipt": one, "why": "elsewhere", "location": there} for one in body["acks"]
            ]
            raise AttemptSuperseded("it is elsewhere", hint="send it there", refused=refused)
        return {}


def test_a_receipt_follows_its_partition_while_that_moves() -> None:
    services = Moving(times=2)
    settling = Settling(services, Pool("calls", 2))  # type: ignore[arg-type]
    assert settling.settle("g", ACTIONS[:1]) == [DONE]
    assert services.asked == ["http://a", "http://node-1", "http://node-2"]


def test_a_partition_that_never_rests_is_an_error() -> None:
    services = Moving(times=100)
    settling = Settling(services, Pool("calls", 2))  # type: ignore[arg-type]
    (outcome,) = settling.settle("g", ACTIONS[:1])
    assert isinstance(outcome, NotReady)
    assert outcome.retryable
    assert len(services.asked) < 10


@pytest.mark.parametrize("why", ["elsewhere", "a word of a later release"])
@pytest.mark.parametrize("fifo", [False, True])
def test_only_a_message_that_is_over_is_answered_as_deleted(why: str, fifo: bool) -> None:
    check_deleted(DONE, fifo)
    check_deleted("settled", fifo)
    with pytest.raises(NotReady):
        check_deleted(why, fifo)


@pytest.mark.parametrize("why", ["unknown_group", "group_deleted", "topic_deleted"])
def test_a_receipt_of_what_is_gone_is_of_no_queue(why: str) -> None:
    with pytest.raises(SqsError, match="does not exist"):
        check_deleted(why, fifo=False)
