"""How messages go to an ingest node."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import httpx2
import orjson
import pytest

from lakequeue import wire
from lakequeue.calling import blocking_runner
from lakequeue.calling.credentials import Credentials
from lakequeue.errors import TopicClosed
from serving.front.limits.shares import Pool
from sqs_gateway.calls.sending import Sending
from sqs_gateway.calls.services import Services
from sqs_gateway.rules.messages import Sent

URL = "http://ingest.test"
MESSAGE = Sent("body", "id", None, 0, 4)


@pytest.fixture
def asked() -> Iterator[list[httpx2.Request]]:
    """Requests to a node that stores all."""
    found: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        found.append(request)
        records = orjson.loads(request.content)["records"]
        return httpx2.Response(200, json={"records": [{"offset": 7} for _ in records]})

    unmount = blocking_runner.mount([URL], httpx2.MockTransport(answer))
    yield found
    unmount()


@pytest.mark.parametrize(("ordered", "told"), [(False, None), (True, 7)])
def test_a_send_says_that_it_was_gathered(
    asked: list[httpx2.Request], ordered: bool, told: int | None
) -> None:
    services = Services([URL], [URL], Credentials(None, None, None))
    try:
        sending = Sending(services, Pool("test", 2)).begin("q", [MESSAGE], ordered=ordered)
        assert sending.result(30) == [told]
    finally:
        services.close()
    (request,) = asked
    assert request.headers[wire.GATHERED] == "true"
    assert orjson.loads(request.content) == {
        "records": [{"topic": "q", "value": "body", "message_id": "id"}]
    }


@pytest.mark.parametrize("ordered", [False, True])
def test_a_topic_that_is_closed_keeps_no_other_waiting(ordered: bool) -> None:
    opened = threading.Event()

    def answer(request: httpx2.Request) -> httpx2.Response:
        records = orjson.loads(request.content)["records"]
        if not opened.is_set() and any(record["topic"] == "b" for record in records):
            closed = TopicClosed("b is drained", hint="send again", stored="no")
            return httpx2.Response(
                503, json=closed.to_problem(), headers={"content-type": wire.PROBLEM}
            )
        return httpx2.Response(200, json={"records": [{"offset": 7} for _ in records]})

    unmount = blocking_runner.mount([URL], httpx2.MockTransport(answer))
    services = Services([URL], [URL], Credentials(None, None, None))
    told = 7 if ordered else None
    try:
        sending = Sending(services, Pool("test", 20))
        held = [sending.begin("b", [MESSAGE], ordered=ordered) for _ in range(10)]
        beside = [sending.begin("a", [MESSAGE], ordered=ordered) for _ in range(5)]
        assert [one.result(5) for one in beside] == [[told]] * 5
        assert sending.begin("a", [MESSAGE], ordered=ordered).result(5) == [told]
        assert not any(one.done() for one in held), "they wait until it is open"
        opened.set()
        assert [one.result(30) for one in held] == [[told]] * 10
        assert sending.begin("b", [MESSAGE], ordered=ordered).result(5) == [told]
    finally:
        opened.set()
        services.close()
        unmount()
