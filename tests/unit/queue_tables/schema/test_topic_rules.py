"""What may be said of a topic while it is closed."""

from __future__ import annotations

from typing import Any

import pytest

from lakequeue.errors import InvalidRequest
from lakequeue.records import TopicId
from queue_tables.schema.topic_rules import MAX_SKEW_US, Topic, altered, checked_config

NOW = 1_700_000_000_000_000
OPEN = Topic(topic="t", topic_id=TopicId("i"), version=0, **checked_config("t", {"partitions": 2}))


def after(topic: Topic, **changes: Any) -> dict[str, Any] | None:
    return altered(topic, changes, {}, NOW)


def test_a_topic_is_closed_until_a_time_and_opened_by_a_word() -> None:
    closed = after(OPEN, closed_for_ms=2_000)
    assert closed is not None
    assert closed["closed_until"] == NOW + 2_000_000
    assert {name: closed[name] for name in OPEN.config} == OPEN.config
    shut = OPEN.model_copy(update={"closed_until": NOW + 60_000_000})
    for word in (0, None):
        opened = after(shut, closed_for_ms=word)
        assert opened is not None
        assert opened["closed_until"] is None
    other = after(shut, ttl_ms=5)
    assert other is not None
    assert other["closed_until"] == shut.closed_until, "another change does not open it"
    assert after(OPEN, closed_for_ms=0) is None


@pytest.mark.parametrize("left_us", [None, -1, 0, MAX_SKEW_US])
def test_it_grows_as_drained_only_while_no_node_can_think_it_open(left_us: int | None) -> None:
    topic = OPEN.model_copy(update={"closed_until": None if left_us is None else NOW + left_us})
    with pytest.raises(InvalidRequest, match="opened again before it could grow"):
        after(topic, partitions=4, closed_for_ms=0)
    shut = OPEN.model_copy(update={"closed_until": NOW + MAX_SKEW_US + 1})
    grown = after(shut, partitions=4, closed_for_ms=0)
    assert grown is not None
    assert (grown["partitions"], grown["closed_until"]) == (4, None)
    at_once = after(topic, partitions=4)
    assert at_once is not None
    assert at_once["partitions"] == 4
