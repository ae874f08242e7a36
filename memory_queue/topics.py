"""The topics of an in-memory queue. The rules are those of the `topics` table."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from lakequeue.clock import Micros
from lakequeue.records import TopicId, checked_name
from queue_tables.schema.topic_rules import (
    Topic,
    altered,
    checked_config,
    is_new,
    schemas_of,
    unknown_topic,
)


class Topics:
    """By name. The caller holds the service's lock."""

    def __init__(self) -> None:
        self.by_name: dict[str, Topic] = {}
        self._versions: dict[str, int] = {}

    def get(self, name: str) -> Topic:
        """Raises `UnknownTopic`."""
        found = self.by_name.get(name)
        if found is None:
            raise unknown_topic(name)
        return found

    def by_id(self, topic_id: str) -> Topic | None:
        """The topic of that incarnation, if it still exists."""
        return next((t for t in self.by_name.values() if t.topic_id == topic_id), None)

    def list(self) -> list[Topic]:
        """Every topic, sorted by name."""
        return sorted(self.by_name.values(), key=lambda topic: topic.topic)

    def create(self, name: str, config: Mapping[str, Any]) -> tuple[Topic, bool]:
        """(topic, created). Raises `TopicExists`, `InvalidName`, `InvalidRequest`."""
        full = checked_config(checked_name(name, "topic"), config)
        created = is_new(name, full, self.by_name)
        if created:
            self._put(name, TopicId(uuid.uuid4().hex), full)
        return self.by_name[name], created

    def alter(self, name: str, changes: Mapping[str, Any], now: Micros) -> Topic:
        """Change settings; partitions may only grow."""
        found = self.get(name)
        full = altered(found, changes, self.by_name, now)
        if full is not None:
            self._put(name, found.topic_id, full)
        return self.by_name[name]

    def delete(self, name: str) -> Topic:
        """Delete it; what it was."""
        found = self.get(name)
        self._versions[name] += 1
        return self.by_name.pop(found.topic)

    def _put(self, name: str, topic_id: TopicId, full: Mapping[str, Any]) -> None:
        version = self._versions[name] = self._versions.get(name, -1) + 1
        before = self.by_name.get(name)
        had = () if before is None else schemas_of(before)
        earlier = tuple(one for one in had if one.text != full["value_schema"])
        self.by_name[name] = Topic(
            topic=name, topic_id=topic_id, version=version, earlier_schemas=earlier, **full
        )
