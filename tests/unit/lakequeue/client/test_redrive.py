"""Which dead records a redrive takes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

import pytest

from lakequeue.client.dead_records import Homes, fate_of
from lakequeue.client.record import Record
from lakequeue.client.redrive import dead_letter_topics, own_headers
from lakequeue.client.redriven import Redriven, Wanted
from lakequeue.errors import InvalidRequest
from lakequeue.wire import TopicDescription

AT = 1_600_000_000_000_000
HEADERS = [("lakequeue-reason", b"expired"), ("a", b"1"), ("a", b"2"), ("n", None)]


@pytest.mark.parametrize(
    ("wanted", "takes"),
    [
        (Wanted(), True),
        (Wanted({"lakequeue-reason": "expired"}), True),
        (Wanted({"a": "1"}), True),
        (Wanted({"a": "2", "lakequeue-reason": "expired"}), True),
        (Wanted({"a": "3"}), False),
        (Wanted({"n": ""}), False),
        (Wanted({"other": "1"}), False),
        (Wanted(since=AT), True),
        (Wanted(since=AT + 1), False),
        (Wanted(until=AT + 1), True),
        (Wanted(until=AT), False),
        (Wanted({"a": "1"}, since=AT, until=AT + 1), True),
    ],
)
def test_headers_and_time_choose(wanted: Wanted, takes: bool) -> None:
    assert wanted.takes(HEADERS, AT) is takes


def test_a_time_in_seconds_chooses_nothing_and_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="since 1600000000 is before 1973: seconds"):
        Wanted(since=1_600_000_000)
    early = Wanted(until=datetime(1960, 1, 1, tzinfo=UTC))
    assert early.takes([], -400_000_000_000_000)
    assert not early.takes([], 0)


@pytest.mark.parametrize(
    ("more", "back"),
    [
        (None, []),
        (
            b'[{"key":"b","value":"3"},{"key":"c","value_base64":"/w=="}]',
            [("b", b"3"), ("c", b"\xff")],
        ),
        (b"not json", []),
        (b"7", []),
    ],
)
def test_a_record_goes_back_with_the_headers_it_had_before_it_died(
    more: bytes | None, back: list[tuple[str, bytes]]
) -> None:
    said = [] if more is None else [("lakequeue-more-headers", more)]
    assert own_headers([*HEADERS, *said]) == [*HEADERS[1:], *back]


def test_dead_letter_topics_are_those_that_are_named_so_or_named_by_another() -> None:
    def topic(name: str, dead: str | None = None) -> TopicDescription:
        return TopicDescription(
            topic=name, topic_id=name, version=0, partitions=1, dead_letter_topic=dead
        )

    topics = [
        topic("a"),
        topic("a.dlq"),
        topic("b", "graveyard"),
        topic("graveyard"),
        topic("x.dlq"),
    ]
    assert dead_letter_topics(topics) == ["a.dlq", "graveyard"]


def test_a_dead_record_that_cannot_be_read_has_no_way_back() -> None:
    raw = {"topic": "a.dlq", "partition": 0, "offset": 3, "timestamp": AT, "undecodable": "why"}
    homes = cast(Homes, None)  # it is not asked
    assert fate_of(Record(raw), Wanted(), homes) == Redriven(without_topic=1)
