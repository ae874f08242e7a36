"""Which topic dead records go to, and how it is made. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakequeue.wire import MAX_DEDUP_WINDOW_MS, default_dead_letters
from queue_tables.schema.topic_rules import Topic


def dead_letters_of(options: Mapping[str, Any], topic: str, source: Topic | None) -> str:
    """What the group says, else the topic, else its default. `source`: the topic, if it exists."""
    named = options.get("dead_letter_topic")
    if named is not None:
        return str(named)
    return default_dead_letters(topic) if source is None else source.dead_letters


def new_dead_letters(source: Topic | None) -> dict[str, Any]:
    """The settings of a dead-letter topic that has to be made.

    Ids are remembered for as long as can be, and bigger records fit: headers are added.
    """
    config: dict[str, Any] = {"dedup_window_ms": MAX_DEDUP_WINDOW_MS}
    return config if source is None else config | {"partitions": source.partitions}
