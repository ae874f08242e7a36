"""An answer to a poll leaves out the assignment only if the client certainly knows it."""

from __future__ import annotations

from consumer_service.members import Told
from consumer_service.ownership.member_partitions import AssignmentRows

BEFORE = AssignmentRows([{"topic": "orders", "partition": 0, "epoch": None}]).digest
NOW = AssignmentRows([{"topic": "orders", "partition": 0, "epoch": 4}]).digest
AGAIN = AssignmentRows([{"topic": "orders", "partition": 0, "epoch": 4}]).digest


def test_what_an_answer_that_arrived_has_told_is_known() -> None:
    told = Told()
    assert not told.knows(0, 1, NOW)
    assert told.knows(1, 2, NOW)
    assert told.knows(2, 3, AGAIN)


def test_what_was_told_in_an_answer_that_got_lost_is_told_again() -> None:
    told = Told()
    told.knows(0, 1, BEFORE)
    assert not told.knows(1, 2, NOW)
    assert not told.knows(1, 3, NOW), "answer 2 has not arrived"
    assert told.knows(3, 4, NOW)
    assert not told.knows(4, 5, BEFORE), "it has changed back"


def test_an_older_poll_that_still_waits_tells_nothing_to_the_newer_one() -> None:
    told = Told()
    told.knows(0, 3, BEFORE)
    assert not told.knows(0, 2, NOW), "the client has given it up"
    assert not told.knows(3, 4, NOW)


def test_who_does_not_say_what_arrived_is_told_each_time() -> None:
    told = Told()
    told.knows(0, 1, NOW)
    assert not told.knows(None, 0, NOW)
    assert not told.knows(0, 2, NOW)


def test_what_was_told_without_being_asked_for_little_counts_as_well() -> None:
    told = Told()
    told.knows(0, 1, NOW)
    assert not told.knows(None, 2, BEFORE)
    assert not told.knows(2, 3, NOW), "it has changed back since answer 2"
    assert told.knows(3, 4, NOW)
