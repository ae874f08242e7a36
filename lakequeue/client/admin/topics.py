"""Topics: create, describe, alter, grow, delete."""

from __future__ import annotations

from typing import Any

from lakequeue.client.admin.calls import ServiceCalls, answer_of, checked, path_of_topic
from lakequeue.errors import TopicExists
from lakequeue.wire import TopicChanges, TopicConfig, TopicDescription, TopicList


class TopicCalls(ServiceCalls):
    """What `Admin` does with topics."""

    def create_topic(
        self, topic: str, *, if_not_exists: bool = False, **config: Any
    ) -> tuple[TopicDescription, bool]:
        """Create a topic.

        Args:
            topic: Name of the topic.
            if_not_exists: Do not raise if it exists with other settings.
            **config: Settings, those of `TopicConfig`.

        Returns:
            The topic, and whether it is new.

        Raises:
            TopicExists: It exists with other settings.
            InvalidRequest: A setting is not valid.
        """
        # Null is the default wherever it may stand: an earlier release knows fewer settings.
        body = checked(TopicConfig, config).model_dump(exclude_none=True)
        try:
            reply = self._call(self._ingest, "PUT", path_of_topic(topic), body)
        except TopicExists:
            if not if_not_exists:
                raise
            return self.topic(topic), False
        return answer_of(TopicDescription, reply), reply.status == 201

    def topic(self, topic: str) -> TopicDescription:
        """Describe a topic.

        Args:
            topic: Name of the topic.

        Returns:
            Its settings and its partitions.

        Raises:
            UnknownTopic: There is no such topic.
        """
        return answer_of(TopicDescription, self._call(self._ingest, "GET", path_of_topic(topic)))

    def topics(self) -> list[TopicDescription]:
        """List the topics.

        Returns:
            All topics, by name.
        """
        return answer_of(TopicList, self._call(self._ingest, "GET", "/v1/topics")).topics

    def alter_topic(self, topic: str, **changes: Any) -> TopicDescription:
        """Change settings of a topic.

        Args:
            topic: Name of the topic.
            **changes: Settings, those of `TopicChanges`. Partitions can only be added.

        Returns:
            The topic with its new settings.

        Raises:
            UnknownTopic: There is no such topic.
            InvalidRequest: A setting is not valid.
        """
        checked(TopicChanges, changes)
        return answer_of(
            TopicDescription, self._call(self._ingest, "PATCH", path_of_topic(topic), changes)
        )

    def settle_topic(self, topic: str, timeout_s: float = 10.0) -> None:
        """Wait until all records that any node has taken for a closed topic are ordered.

        Args:
            topic: Name of the topic.
            timeout_s: How long to wait.

        Raises:
            UnknownTopic: There is no such topic.
        """
        path = f"{path_of_topic(topic)}/settle?timeout_ms={max(1, round(timeout_s * 1_000))}"
        self._call(self._ingest, "POST", path, takes_s=timeout_s)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic. Its records are not delivered any more.

        Args:
            topic: Name of the topic.

        Raises:
            UnknownTopic: There is no such topic.
        """
        self._call(self._ingest, "DELETE", path_of_topic(topic))
