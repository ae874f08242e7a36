"""Settings of topics and groups are declared once; what is made of that agrees."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest
from pydantic import ValidationError

from lakequeue import wire
from lakequeue.client.consuming.consumer_base import ConsumerOptions
from lakequeue.wire.calls.topics import TopicSettings
from lakequeue.wire.declared import declared
from queue_tables.schema.schemas import TOPICS

SETTINGS = {one.name: one for one in declared(TopicSettings)}


def test_every_setting_of_a_topic_is_a_column_and_stands_in_its_description() -> None:
    columns = [column.name for column in TOPICS.columns]
    assert columns[4 : 4 + len(SETTINGS)] == list(SETTINGS)
    assert set(SETTINGS) <= set(wire.TopicDescription.model_fields)


def test_what_cannot_be_altered_is_refused_by_the_request_that_alters() -> None:
    assert set(SETTINGS) - set(wire.TopicChanges.model_fields) == {"partitioner"}
    with pytest.raises(ValidationError, match="Extra inputs"):
        wire.TopicChanges.model_validate({"partitioner": "murmur2"})


@pytest.mark.parametrize("name", [n for n, one in SETTINGS.items() if one.type is int])
def test_a_request_is_held_to_the_bounds_and_an_answer_is_not(name: str) -> None:
    setting = SETTINGS[name].setting
    for beyond in ((setting.least or 0) - 1, (setting.most or 0) + 1):
        for request in (wire.TopicConfig, wire.TopicChanges):
            with pytest.raises(ValidationError, match=rf"{name}\n.*should be (less|greater)"):
                request.model_validate({name: beyond})
        told: dict[str, Any] = {"topic": "t", "topic_id": "i", "version": 0, name: beyond}
        assert getattr(wire.TopicDescription.model_validate(told), name) == beyond
    wire.TopicConfig.model_validate({name: setting.least})
    wire.TopicConfig.model_validate({name: setting.most})


def test_the_document_of_the_call_has_bounds_and_meaning() -> None:
    schema = wire.TopicChanges.model_json_schema()["properties"]["ttl_ms"]
    number = {"type": "integer", "minimum": 1, "maximum": wire.MAX_SPAN_MS}
    assert schema["anyOf"] == [number, {"type": "null"}]
    assert schema["description"] == SETTINGS["ttl_ms"].setting.sentence


def test_a_consumer_takes_every_option_of_a_group() -> None:
    options = get_type_hints(ConsumerOptions)
    assert {one.name for one in declared(wire.JoinRequest)} <= set(options)
    for one in declared(wire.JoinRequest):
        assert options[one.name] == one.type, one.name


def test_a_predicate_is_bounded_in_its_length() -> None:
    for text in ("", "x" * 4_001):
        with pytest.raises(ValidationError, match=r"predicate\n.*String should have at"):
            wire.GroupOptions(predicate=text)
