"""A group that is not what is asked for: what the error advises costs nobody anything."""

from __future__ import annotations

import pytest

from lakequeue.errors import GroupMismatch
from lakequeue.wire.calls.topics import TopicSettings
from lakequeue_cli.declared_options import option_of, settings_of
from queue_rules.groups.group_config import OF_TOPICS_TOO, GroupConfig, check_config


def refused(kept: GroupConfig, asked: GroupConfig) -> GroupMismatch:
    with pytest.raises(GroupMismatch) as caught:
        check_config("g", kept, asked)
    return caught.value


def test_the_topic_may_have_what_the_group_has_not() -> None:
    hint = refused(
        GroupConfig("queue", {"max_attempts": 3}), GroupConfig("queue", {"max_attempts": 5})
    ).hint
    assert hint.startswith("leave max_attempts out and say")
    assert "`lakequeue topic alter TOPIC --max-attempts 5`" in hint


def test_a_new_group_and_a_deleted_one_start_from_the_beginning() -> None:
    for error in (
        refused(GroupConfig("queue"), GroupConfig("queue", {"ordering": "key"})),
        refused(GroupConfig("queue"), GroupConfig("stream")),
    ):
        assert "gets all records of its topics from the beginning" in error.hint
        assert "topic alter" not in error.hint


def test_the_options_are_those_of_the_command_line() -> None:
    found = {one.name: option_of(one) for one in settings_of(TopicSettings, *OF_TOPICS_TOO)}
    assert found == {name: text.split()[0] for name, text in OF_TOPICS_TOO.items()}
