"""What is marked is looked at, and what is told is made anew when it has changed.

That polls find what they would find by looking at everything: see `streams/test_readiness.py`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from consumer_service.ownership.member_partitions import LOOK_AT_ALL_S, MemberPartitions


@dataclass(eq=False)
class Place:
    """A partition of a log that grows by records that are read."""

    number: int
    records: int = 0
    read: int = 0
    among: Any = None

    @property
    def order(self) -> tuple[str, int]:
        return "orders", self.number

    def row(self) -> dict[str, Any] | None:
        return {"topic": "orders", "partition": self.number, "epoch": self.records}


def has_something(place: Place) -> bool:
    return place.read < place.records


def places(count: int) -> tuple[MemberPartitions[Place], list[Place]]:
    mine: MemberPartitions[Place] = MemberPartitions()
    made = [Place(number) for number in range(count)]
    for place in made:
        mine.add(place)
    assert mine.look(has_something, 0) == []
    return mine, made


def test_only_what_is_marked_is_looked_at() -> None:
    mine, made = places(1_000)
    looked: list[Place] = []

    def looking(place: Place) -> bool:
        looked.append(place)
        return has_something(place)

    made[7].records = made[8].records = 1
    mine.mark(made[8])
    mine.mark(made[9])
    assert mine.look(looking, 0) == [made[8]]
    assert looked == [made[8], made[9]]
    assert mine.look(has_something, 0) == [made[8]], "until there is nothing any more"
    made[8].read = 1
    assert mine.look(has_something, 0) == []


def test_a_mark_that_was_forgotten_costs_a_second() -> None:
    mine, made = places(3)
    made[1].records = 1
    assert mine.look(has_something, LOOK_AT_ALL_S / 2) == []
    assert mine.look(has_something, LOOK_AT_ALL_S) == [made[1]]


def test_what_is_gone_is_not_looked_at_whoever_marks_it() -> None:
    mine, made = places(2)
    for place in made:
        place.records = 1
        mine.mark(place)
    mine.remove(made[0])
    mine.mark(made[0])
    assert mine.look(has_something, 0) == [made[1]]
    assert mine.all == [made[1]]


def test_who_gave_something_comes_after_those_that_wait_longer() -> None:
    mine, made = places(3)
    for place in reversed(made):
        place.records = 1
        mine.mark(place)
    assert mine.look(has_something, 0) == made[::-1]
    made[2].read = 1
    mine.look(has_something, 0)
    made[2].records = 2
    mine.mark(made[2])
    assert mine.look(has_something, 0) == [made[1], made[0], made[2]]


def test_no_look_that_fails_forgets_anything() -> None:
    mine, made = places(2)
    made[0].records = 1
    mine.mark(made[0])

    def fails(_: Place) -> bool:
        raise OSError("once")

    try:
        mine.look(fails, 0)
    except OSError:
        assert mine.look(has_something, 0) == [made[0]]
    else:
        raise AssertionError("it hides an error")


def test_no_mark_is_lost_beside_looks_of_others() -> None:
    mine, made = places(8)
    rounds, over = 3_000, threading.Event()

    def grow() -> None:
        for number in range(rounds):
            place = made[number % len(made)]
            place.records += 1
            mine.mark(place)
        over.set()

    def look() -> None:
        while not over.is_set():
            mine.look(has_something, 0)

    threads = [threading.Thread(target=work) for work in (grow, look)]
    for thread in threads:
        thread.start()
    read = 0
    while not over.is_set() or mine.look(has_something, 0):
        for place in mine.look(has_something, 0):
            read, place.read = read + place.records - place.read, place.records
    for thread in threads:
        thread.join()
    assert sum(place.read for place in made) == rounds


def test_what_is_told_is_made_once_and_anew_after_a_change() -> None:
    mine, made = places(2)
    first = mine.told()
    assert first is mine.told()
    assert first.epochs == {("orders", 0): 0, ("orders", 1): 0}
    made[1].records = 4
    mine.changed()
    assert mine.told().epochs == {("orders", 0): 0, ("orders", 1): 4}
    assert mine.told().digest != first.digest
    made[1].records = 0
    mine.changed()
    assert mine.told().digest == first.digest
    mine.remove(made[0])
    assert [*mine.told().epochs] == [("orders", 1)]


def test_a_change_while_it_is_made_is_told_the_next_time() -> None:
    mine, made = places(2)

    class Changes(Place):
        def row(self) -> dict[str, Any] | None:
            if not made[0].records:
                made[0].records = 5  # its row is made already
                mine.changed()
            return super().row()

    mine.add(Changes(2))
    mine.told()
    assert mine.told().epochs["orders", 0] == 5
