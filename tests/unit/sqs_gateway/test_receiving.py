"""Receives that come together share a poll, and one that does not wait is held up by none."""

from __future__ import annotations

import queue
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest

from lakequeue.clock import boot_seconds
from serving.front.limits.shares import Pool
from sqs_gateway.calls.receiving import Receiving, Record, Ticket


@dataclass
class Poll:
    """One that is under way."""

    most: int
    wait_s: float
    end: Future[list[int]] = field(default_factory=Future)


class Services:
    """The test answers polls."""

    def __init__(self) -> None:
        self.polls: queue.Queue[Poll] = queue.Queue()
        self.returned: list[int] = []
        self.receiving = Receiving(self._ask, self._give_back, Pool("poll", 8))

    def _ask(self, _path: str, body: dict[str, Any], wait_s: float) -> Any:
        poll = Poll(body["max"], wait_s)
        self.polls.put(poll)
        return {"records": [{"number": number} for number in poll.end.result(30)]}

    def _give_back(self, _queue: str, records: list[Record]) -> None:
        self.returned += [record["number"] for record in records]

    def begin(
        self, wait_s: float, most: int = 10, *, gone: bool = False, visibility_ms: int = 30_000
    ) -> Ticket:
        """A receive."""
        ticket = Ticket(most, boot_seconds() + wait_s, lambda: gone)
        self.receiving.ask("q", visibility_ms, ticket)
        return ticket

    def poll(self) -> Poll:
        """The next that is under way."""
        return self.polls.get(timeout=30)


@pytest.fixture
def services() -> Services:
    return Services()


def numbers(ticket: Ticket) -> list[int]:
    return [record["number"] for record in ticket.future.result(30)]


def test_those_that_come_meanwhile_share_the_next_poll(services: Services) -> None:
    first = services.begin(0)
    poll = services.poll()
    second = services.begin(0)
    beside = services.poll()
    others = [services.begin(0, most) for most in (3, 10, 10)]
    assert services.polls.empty()
    poll.end.set_result([1])
    assert numbers(first) == [1]
    together = services.poll()
    assert (together.most, together.wait_s) == (23, 0.0)
    together.end.set_result([3, 4, 5, 6])
    assert [numbers(one) for one in others] == [[3, 4, 5], [6], []]
    beside.end.set_result([])
    assert numbers(second) == []


def test_one_poll_waits_for_all_and_ends_for_whoever_waits_least(services: Services) -> None:
    first = services.begin(20)
    poll = services.poll()
    assert poll.most == 10
    assert 19 < poll.wait_s <= 20
    second, third = services.begin(5), services.begin(20)
    assert services.polls.empty()
    poll.end.set_result([1])
    assert numbers(first) == [1]
    poll = services.poll()
    assert poll.most == 20
    assert 4 < poll.wait_s <= 5
    poll.end.set_result([2, 3])
    assert numbers(second) == [2, 3]
    poll = services.poll()
    assert poll.most == 10
    poll.end.set_result([4])
    assert numbers(third) == [4]


def test_a_receive_that_does_not_wait_is_answered_beside_a_poll_that_waits(
    services: Services,
) -> None:
    waits = services.begin(20)
    waiting = services.poll()
    later = services.begin(20)
    at_once = services.begin(0)
    beside = services.poll()
    assert (beside.most, beside.wait_s) == (20, 0.0), "for both that no poll is under way for"
    beside.end.set_result([])
    assert numbers(at_once) == []
    another = services.begin(0)
    services.poll().end.set_result([])
    assert numbers(another) == [], "also when the one before has found nothing"
    waiting.end.set_result([1])
    assert numbers(waits) == [1]
    services.poll().end.set_result([2])
    assert numbers(later) == [2]


def test_whoever_is_gone_gets_nothing_and_nothing_is_lost(services: Services) -> None:
    gone = services.begin(20, gone=True)
    services.poll().end.set_result([1, 2])
    assert numbers(gone) == []
    assert services.returned == [1, 2]


def test_who_withdraws_is_not_polled_for(services: Services) -> None:
    first = services.begin(20)
    poll = services.poll()
    second = Ticket(10, boot_seconds() + 20, lambda: False)
    line = services.receiving.ask("q", 30_000, second)
    assert line.withdraw(second)
    assert not line.withdraw(first), "a poll is under way for it"
    poll.end.set_result([1])
    assert numbers(first) == [1]
    assert services.polls.empty()


def test_an_error_is_of_those_whose_poll_it_was(services: Services) -> None:
    first = services.begin(20)
    poll = services.poll()
    second = services.begin(20)
    poll.end.set_exception(OSError("gone"))
    with pytest.raises(OSError, match="gone"):
        first.future.result(30)
    services.poll().end.set_result([1])
    assert numbers(second) == [1]


def test_another_visibility_is_another_poll(services: Services) -> None:
    first = services.begin(20)
    poll = services.poll()
    other = services.begin(20, visibility_ms=5_000)
    services.poll().end.set_result([1])
    assert numbers(other) == [1]
    poll.end.set_result([2])
    assert numbers(first) == [2]
