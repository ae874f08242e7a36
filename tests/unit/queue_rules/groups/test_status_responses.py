"""The rules of "what became of a record?"."""

from __future__ import annotations

import pytest

from lakequeue.records import Partition, TopicId
from lakequeue.wire import DeadLetterPlace
from queue_rules.groups.status_responses import response_of, stream_status
from queue_rules.streams.cursor import Cursor
from queue_tables.groups.facts import Key
from queue_tables.groups.record_status import Status

KEY = Key("g", TopicId("t1"), Partition(3))


def test_in_a_stream_group_what_has_left_and_is_not_durably_acked_is_in_flight() -> None:
    cursor = Cursor(2)
    cursor.deliver(2, 6)
    cursor.ack([2], through=False)
    found = [stream_status(cursor, "m", offset) for offset in range(8)]
    assert [one.status for one in found] == [
        *("acked", "acked", "in_flight", "in_flight", "in_flight", "in_flight"),
        *("pending", "pending"),
    ]
    assert {one.member for one in found[2:6]} == {"m"}
    cursor.made_durable(3)
    assert stream_status(cursor, "m", 2).status == "acked"


def test_what_a_predicate_has_skipped_is_with_nobody() -> None:
    cursor = Cursor(0)
    cursor.deliver_among([1, 4], 6)
    found = [stream_status(cursor, "m", offset).status for offset in range(7)]
    assert found == ["acked", "in_flight", "acked", "acked", "in_flight", "acked", "pending"]


@pytest.mark.parametrize(
    ("status", "deadline", "due"),
    [
        (Status("in_flight", 1, "m", until=7), 7, None),
        (Status("parked", 0, until=8), None, 8),
        (Status("acked"), None, None),
    ],
)
def test_a_deadline_is_one_of_a_member_and_a_delayed_record_is_due(
    status: Status, deadline: int | None, due: int | None
) -> None:
    answer = response_of(KEY, "orders", 5, status, "owner")
    assert (answer.topic, answer.partition, answer.offset) == ("orders", 3, 5)
    assert (answer.deadline, answer.due) == (deadline, due)
    assert answer.dead_letter is None


def test_the_place_of_a_dead_letter_is_taken_apart() -> None:
    status = Status("dead", 3, reason="max_attempts", dead_letter="orders.dlq/2@9")
    answer = response_of(KEY, "orders", 5, status, "tables")
    assert answer.dead_letter == DeadLetterPlace(topic="orders.dlq", partition=2, offset=9)
    assert (answer.attempt, answer.reason, answer.source) == (3, "max_attempts", "tables")
