"""What is said of receipts to the services."""

from __future__ import annotations

from typing import Any

from lakequeue.calling.nodes import Nodes
from lakequeue.errors import InvalidRequest
from serving.front.limits.shares import Pool
from sqs_gateway.calls.settling import DONE, Action, Settling


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
