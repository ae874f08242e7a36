"""Which dead records a redrive takes."""

from __future__ import annotations

import pytest

from lakequeue.client.redrive import Wanted, dead_letter_topics, own_headers
from lakequeue.wire import TopicDescription

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
        (Wanted(since=100), True),
        (Wanted(since=101), False),
        (Wanted(until=101), True),
        (Wanted(until=100), False),
        (Wanted({"a": "1"}, since=100, until=101), True),
    ],
)
def test_headers_and_time_choose(wanted: Wanted, takes: bool) -> None:
    assert wanted.takes(HEADERS, 100) is takes


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
