"""Topics, on the ingest port."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from lakequeue.wire.limits import (
    DEFAULT_DEDUP_WINDOW_MS,
    DEFAULT_PARTITIONS,
    MAX_DEDUP_WINDOW_MS,
    MAX_PARTITIONS,
)
from lakequeue.wire.shapes import AnswerShape, RequestShape

Partitioner = Literal["crc32", "murmur2"]


class TopicConfig(RequestShape):
    """`PUT /v1/topics/{topic}`: everything has a default."""

    partitions: int = Field(DEFAULT_PARTITIONS, ge=1, le=MAX_PARTITIONS)
    partitioner: Partitioner = "crc32"
    retention_ms: int | None = Field(None, ge=1)
    ttl_ms: int | None = Field(None, ge=1)
    dedup_window_ms: int = Field(DEFAULT_DEDUP_WINDOW_MS, ge=0, le=MAX_DEDUP_WINDOW_MS)
    max_record_bytes: int | None = Field(None, ge=1)
    value_schema: str | None = None
    dead_letter_topic: str | None = None


class TopicChanges(RequestShape):
    """`PATCH /v1/topics/{topic}`: only the fields that are set change; partitions only grow."""

    partitions: int | None = Field(None, ge=1, le=MAX_PARTITIONS)
    retention_ms: int | None = Field(None, ge=1)
    ttl_ms: int | None = Field(None, ge=1)
    dedup_window_ms: int | None = Field(None, ge=0, le=MAX_DEDUP_WINDOW_MS)
    max_record_bytes: int | None = Field(None, ge=1)
    value_schema: str | None = None
    dead_letter_topic: str | None = None

    def changes(self) -> dict[str, Any]:
        """The fields that were sent, an explicit null included."""
        return self.model_dump(exclude_unset=True)


class TopicDescription(AnswerShape):
    """`GET /v1/topics/{topic}`, and the answer to PUT and PATCH."""

    topic: str
    topic_id: str
    version: int
    partitions: int
    partitioner: Partitioner = "crc32"
    retention_ms: int | None = None
    ttl_ms: int | None = None
    dedup_window_ms: int = DEFAULT_DEDUP_WINDOW_MS
    max_record_bytes: int | None = None
    value_schema: str | None = None
    dead_letter_topic: str | None = None


class TopicList(AnswerShape):
    """`GET /v1/topics`, sorted by name."""

    topics: list[TopicDescription]
