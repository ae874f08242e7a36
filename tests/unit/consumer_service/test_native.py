"""Which polls the event loop answers by itself, and whose."""

from __future__ import annotations

import pytest

from consumer_service.http.native import _query_of, _said, may_consume
from consumer_service.members import Member
from lakequeue.errors import Forbidden
from lakequeue.wire import JoinRequest
from queue_access.doors import Caller
from queue_access.rights import Kind, Right, Rights, checked_grant
from queue_rules.groups.member_states import Liveness
from serving.front.messages import Request


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("", {}),
        ("max=10", {"max": "10"}),
        ("wait_ms=2000&after=0&max=7", {"wait_ms": "2000", "after": "0", "max": "7"}),
    ],
)
def test_a_plain_query_is_read(text: str, given: dict[str, str]) -> None:
    assert _query_of(text) == given


@pytest.mark.parametrize(
    "text",
    [
        "max=1&max=2",
        "max=-1",
        "max=",
        "max=%31",
        "most=1",
        "max=1&",
        "&max=1",
        "max=1;after=2",
        "x",
    ],
)
def test_any_other_is_for_the_application(text: str) -> None:
    assert _query_of(text) is None


def test_what_a_client_takes_may_stand_in_several_headers() -> None:
    json, events = b"application/json", b"application/cloudevents-batch+json"
    assert _said([(b"host", b"x")], b"accept") is None
    headers = [(b"accept", json), (b"host", b"x"), (b"accept", events)]
    assert _said(headers, b"accept") == "application/json,application/cloudevents-batch+json"


def asked_by(rights: Rights) -> Request:
    return Request("GET", b"/", "/", "", [], "", caller=Caller("ada", rights))


def rights_over(*topics: str) -> Rights:
    return Rights(checked_grant("consume", "topic", topic) for topic in topics)


def member_of(*topics: str) -> Member:
    return Member("g", "m", JoinRequest(topics=[*topics]), 6_000, Liveness(6, 60, 0, 0))


def test_each_call_needs_the_rights_over_all_topics_of_its_member() -> None:
    member, names = member_of("mail", "orders"), ("mail", "orders")
    request = asked_by(rights_over(*names))
    may_consume(request, member)
    expected = [(Right.CONSUME, Kind.TOPIC, name) for name in names]
    assert request.also == expected
    again = asked_by(request.caller.rights)
    may_consume(again, member)
    assert again.also == expected, "it is asked again when the call goes on"


def test_a_right_that_was_taken_away_counts_at_the_next_call() -> None:
    member, before = member_of("mail", "orders"), rights_over("mail", "orders")
    may_consume(asked_by(before), member)
    for rights in (rights_over("mail"), rights_over()):
        for _ in range(2):
            with pytest.raises(Forbidden, match="consume"):
                may_consume(asked_by(rights), member)
    may_consume(asked_by(before), member)


def test_the_same_rights_are_judged_once() -> None:
    judged: list[str] = []

    class Counting(Rights):
        def allow(self, right: Right, kind: Kind, name: str = "") -> bool:
            judged.append(name)
            return super().allow(right, kind, name)

    member, rights = member_of("mail", "orders"), Counting([checked_grant("admin", "queue", "*")])
    for _ in range(3):
        may_consume(asked_by(rights), member)
    assert judged == ["mail", "orders"]
