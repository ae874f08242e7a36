"""Requests that come while others are under way go together."""

from __future__ import annotations

import threading

import pytest

from serving.front.limits.shares import Pool
from sqs_gateway.calls import combining
from sqs_gateway.calls.combining import Combined


def test_what_waits_goes_together_and_everybody_gets_their_own() -> None:
    began, go_on = threading.Event(), threading.Event()
    together: list[list[int]] = []

    def do(items: list[int]) -> list[int | Exception]:
        together.append(items)
        if len(together) == 1:
            began.set()
            go_on.wait(30)
        return [item * 10 for item in items]

    combined = Combined(do, pool=Pool("test", 8), at_once=1, most=100)
    found: dict[int, list[int | Exception]] = {}

    def ask(number: int) -> None:
        found[number] = combined.ask([number, number + 1])

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(0, 20, 2)]
    threads[0].start()
    assert began.wait(30)
    for thread in threads[1:]:
        thread.start()
    while len(combined._waiting) < 9:
        threads[0].join(0.001)
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert found == {n: [n * 10, n * 10 + 10] for n in range(0, 20, 2)}
    assert [len(items) for items in together] == [2, 18]
    assert combined.ask([7]) == [70], "the next one begins anew"


def test_a_failure_is_everybodys_and_the_next_is_tried() -> None:
    failing = [True]

    def do(items: list[int]) -> list[int | Exception]:
        if failing.pop() if failing else False:
            raise OSError
        return list(items)

    combined = Combined(do, pool=Pool("test", 8), at_once=2, most=1)
    (error,) = combined.ask([1])
    assert isinstance(error, OSError)
    assert combined.ask([2, 3]) == [2, 3], "what one asks for is not parted"


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_goes_together_than_there_is_room_for(most: int) -> None:
    sizes: list[int] = []
    lock = threading.Lock()

    def do(items: list[int]) -> list[int | Exception]:
        with lock:
            sizes.append(len(items))
        return list(items)

    combined = Combined(do, pool=Pool("test", 8), at_once=2, most=most)
    threads = [threading.Thread(target=combined.ask, args=([n],)) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sum(sizes) == 50
    assert max(sizes) <= most


def test_what_is_slow_holds_up_nobody_who_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def do(items: list[int]) -> list[int | Exception]:
        if items == [1]:
            go_on.wait(30)
        return list(items)

    combined = Combined(do, pool=Pool("test", 8), at_once=1, most=100)
    slow = combined.begin([1])
    waits = combined.begin([2])
    monkeypatch.setattr(combining, "SLOW_S", 0.0)
    assert combined.begin([3]).result(30) == [3]
    assert waits.result(30) == [2]
    assert not slow.done()
    go_on.set()
    assert slow.result(30) == [1]


def test_those_who_were_answered_together_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combining, "GATHER_S", 30.0)
    began, go_on = threading.Event(), threading.Event()
    together: list[int] = []

    def do(items: list[int]) -> list[int | Exception]:
        together.append(len(items))
        if len(together) == 1:
            began.set()
            go_on.wait(30)
        return list(items)

    combined = Combined(do, pool=Pool("test", 8), at_once=1, most=100)
    first = combined.begin([1])
    assert began.wait(30)
    three = [combined.begin([n]) for n in range(3)]
    go_on.set()
    for one in (first, *three):
        one.result(30)
    assert together == [1, 3]
    again = [combined.begin([n]) for n in range(3)]
    assert [one.result(30) for one in again] == [[0], [1], [2]]
    assert together == [1, 3, 3]
    monkeypatch.setattr(combining, "GATHER_S", 0.001)
    assert combined.begin([7]).result(30) == [7], "and not for long"
