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


class Held:
    """Work that goes on when it is let, and remembers how many items went together."""

    def __init__(self) -> None:
        self.together: list[int] = []
        self.began, self.go_on = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, items: list[int]) -> list[int | Exception]:
        self.together.append(len(items))
        self.began.release()
        assert self.go_on.acquire(timeout=30)
        return list(items)


def test_those_who_asked_a_moment_ago_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GATHER_S", "GAP_S", "AGAIN_S", "SLOW_S"):
        monkeypatch.setattr(combining, name, 30.0)
    do = Held()
    combined = Combined(do, pool=Pool("test", 8), at_once=1, most=100)
    first = combined.begin([1])
    assert do.began.acquire(timeout=30)
    three = [combined.begin([n]) for n in range(3)]
    do.go_on.release()
    assert first.result(30) == [1]
    # It was one of four who asked: it comes again, and goes with the three.
    first = combined.begin([1])
    assert do.began.acquire(timeout=30)
    assert do.together == [1, 4]
    do.go_on.release(2)
    for one in (first, *three):
        one.result(30)
    again = [combined.begin([n]) for n in range(4)]
    assert [one.result(30) for one in again] == [[0], [1], [2], [3]]
    assert do.together == [1, 4, 4]


@pytest.mark.parametrize("short", ["GATHER_S", "GAP_S", "AGAIN_S"])
def test_and_not_for_long(monkeypatch: pytest.MonkeyPatch, short: str) -> None:
    """Nor if nobody comes any more, nor if it was long ago."""
    for name in ("GATHER_S", "GAP_S", "AGAIN_S"):
        monkeypatch.setattr(combining, name, 0.001 if name == short else 60.0)
    do = Held()
    combined = Combined(do, pool=Pool("test", 8), at_once=1, most=100)
    do.go_on.release(10)
    assert combined.ask([1]) == [1]
    combined._expected = 4
    if short == "AGAIN_S":
        combined._ended_at -= 1
    assert combined.begin([7]).result(30) == [7]


def test_a_wait_goes_on_while_one_after_the_other_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GATHER_S", "GAP_S", "AGAIN_S", "SLOW_S"):
        monkeypatch.setattr(combining, name, 60.0)
    do = Held()
    do.go_on.release(10)
    combined = Combined(do, pool=Pool("test", 8), at_once=1, most=100)
    assert combined.ask([0]) == [0]
    assert do.began.acquire(timeout=30)
    combined._expected = 4
    asked = [combined.begin([1])]
    waits_or_has_begun(combined)
    for n in (2, 3):
        asked.append(combined.begin([n]))
        # As if a gap were over, and one more had come in it.
        with combined._lock:
            combined._company.notify_all()
        waits_or_has_begun(combined)
        assert not do.began.acquire(blocking=False)
    asked.append(combined.begin([4]))
    assert [one.result(30) for one in asked] == [[1], [2], [3], [4]]
    assert do.together == [1, 4]


def waits_or_has_begun(combined: Combined[int, int]) -> None:
    for _ in range(30_000):
        with combined._lock:
            if combined._company._waiters or not combined._waiting:  # type: ignore[attr-defined]
                return
        threading.Event().wait(0.001)
    raise AssertionError("it does neither")
