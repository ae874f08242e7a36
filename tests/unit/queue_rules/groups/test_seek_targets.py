"""Where a seek moves a partition, and what it is about."""

from __future__ import annotations

from typing import Any

import pytest

from lakequeue.errors import InvalidRequest, UnknownGroup, UnknownTopic
from lakequeue.records import TopicId
from lakequeue.wire import SeekRequest
from queue_rules.groups.seek_targets import (
    Bounds,
    check_request,
    chosen_of,
    target_of,
    topics_of,
)
from queue_tables.schema.topic_rules import Topic

EXISTS = Bounds(10, 50)


def topic(name: str, partitions: int) -> Topic:
    return Topic(topic=name, topic_id=TopicId(f"id-{name}"), version=1, partitions=partitions)


@pytest.mark.parametrize(
    ("asked", "committed", "by_time", "target"),
    [
        ({"to": "earliest"}, 30, None, 10),
        ({"to": "earliest", "shift": 5}, 30, None, 15),
        ({"to": "latest", "shift": -10}, 30, None, 40),
        ({"to": "committed"}, 30, None, 30),
        ({"to": "committed", "shift": -5}, None, None, 10),
        ({"to": "offset", "offset": 20}, 30, None, 20),
        ({"to": "offset", "offset": 3}, 30, None, 10),
        ({"to": "offset", "offset": 99}, 30, None, 50),
        ({"to": "time", "time": 1_764_374_400_000_000}, 30, 22, 22),
        ({"to": "time", "time": 1_764_374_400_000_000}, 30, None, 50),
    ],
)
def test_a_target_is_kept_within_what_exists(
    asked: dict[str, Any], committed: int | None, by_time: int | None, target: int
) -> None:
    assert target_of(SeekRequest.model_validate(asked), committed, EXISTS, by_time) == target


@pytest.mark.parametrize("to", ["offset", "time"])
def test_an_offset_or_a_time_goes_with_its_word_alone(to: str) -> None:
    value = {"offset": 1, "time": 1_764_374_400_000_000}[to]
    check_request(SeekRequest.model_validate({"to": to, to: value}))
    for wrong in ({"to": to}, {"to": "latest", to: value}):
        with pytest.raises(InvalidRequest) as caught:
            check_request(SeekRequest.model_validate(wrong))
        assert caught.value.extra["field"] == to


def test_a_seek_is_about_the_topics_it_names_or_about_those_that_the_group_has() -> None:
    orders, bills = topic("orders", 2), topic("bills", 1)

    def named(name: str) -> Topic:
        if name != "orders":
            raise UnknownTopic(name)
        return orders

    def about(*known: Topic, **asked: Any) -> list[Topic]:
        request = SeekRequest.model_validate({"to": "latest"} | asked)
        return topics_of("g", request, {t.topic_id for t in known}, [orders, bills], named)

    assert about(bills) == [bills]
    assert about(bills, topics=["orders"]) == [orders]
    with pytest.raises(UnknownTopic):
        about(topics=["bills"])
    with pytest.raises(UnknownGroup):
        about()


def test_one_partition_is_that_of_each_topic_which_has_it() -> None:
    orders, bills = topic("orders", 2), topic("bills", 1)
    assert list(chosen_of([orders, bills], 1)) == [orders.place(1)]
    assert list(chosen_of([orders, bills], None)) == [
        orders.place(0),
        orders.place(1),
        bills.place(0),
    ]
    with pytest.raises(InvalidRequest, match="2"):
        chosen_of([orders, bills], 2)
