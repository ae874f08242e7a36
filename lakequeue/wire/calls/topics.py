"""Topics, on the ingest port."""

from __future__ import annotations

from hashlib import md5
from typing import Any, Literal

from pydantic import Field

from lakequeue.wire.limits import (
    DEFAULT_DEDUP_WINDOW_MS,
    DEFAULT_PARTITIONS,
    MAX_ATTEMPTS,
    MAX_BACKOFF_MS,
    MAX_CLOSED_MS,
    MAX_DEDUP_WINDOW_MS,
    MAX_PARTITIONS,
    MAX_SPAN_MS,
    MAX_WHOLE,
)
from lakequeue.wire.shapes import AnswerShape, RequestShape

Partitioner = Literal["crc32", "murmur2"]
OnExpired = Literal["drop", "dead_letter"]
"""What becomes of a record whose time to live is over."""


_LONGEST_NAME = 249
_SUFFIX = ".dlq"


def default_dead_letters(topic: str) -> str:
    """The dead-letter topic of a topic that names none: `<topic>.dlq`.

    If that is longer than a name may be, the topic's name is cut, and a checksum of it added.
    """
    if len(topic) + len(_SUFFIX) <= _LONGEST_NAME:
        return topic + _SUFFIX
    checksum = md5(topic.encode(), usedforsecurity=False).hexdigest()[:8]
    return f"{topic[:236]}-{checksum}{_SUFFIX}"


class TopicConfig(RequestShape):
    """`PUT /v1/topics/{topic}`: everything has a default."""

    partitions: int = Field(DEFAULT_PARTITIONS, ge=1, le=MAX_PARTITIONS)
    partitioner: Partitioner = "crc32"
    retention_ms: int | None = Field(None, ge=1, le=MAX_SPAN_MS)
    retention_bytes: int | None = Field(None, ge=1, le=MAX_WHOLE)
    expire_unconsumed: bool = False
    ttl_ms: int | None = Field(None, ge=1, le=MAX_SPAN_MS)
    dedup_window_ms: int = Field(DEFAULT_DEDUP_WINDOW_MS, ge=0, le=MAX_DEDUP_WINDOW_MS)
    max_record_bytes: int | None = Field(None, ge=1, le=MAX_WHOLE)
    value_schema: str | None = None
    on_expired: OnExpired = "drop"
    dead_letter_topic: str | None = None
    max_attempts: int | None = Field(None, ge=1, le=MAX_ATTEMPTS)
    backoff_ms: int | None = Field(None, ge=0, le=MAX_BACKOFF_MS)
    backoff_max_ms: int | None = Field(None, ge=0, le=MAX_BACKOFF_MS)
    backoff_jitter_percent: int | None = Field(None, ge=0, le=100)


class TopicChanges(RequestShape):
    """`PATCH /v1/topics/{topic}`: only the fields that are set change; partitions only grow."""

    partitions: int | None = Field(None, ge=1, le=MAX_PARTITIONS)
    retention_ms: int | None = Field(None, ge=1, le=MAX_SPAN_MS)
    retention_bytes: int | None = Field(None, ge=1, le=MAX_WHOLE)
    expire_unconsumed: bool | None = None
    ttl_ms: int | None = Field(None, ge=1, le=MAX_SPAN_MS)
    dedup_window_ms: int | None = Field(None, ge=0, le=MAX_DEDUP_WINDOW_MS)
    max_record_bytes: int | None = Field(None, ge=1, le=MAX_WHOLE)
    value_schema: str | None = None
    on_expired: OnExpired | None = None
    dead_letter_topic: str | None = None
    max_attempts: int | None = Field(None, ge=1, le=MAX_ATTEMPTS)
    backoff_ms: int | None = Field(None, ge=0, le=MAX_BACKOFF_MS)
    backoff_max_ms: int | None = Field(None, ge=0, le=MAX_BACKOFF_MS)
    backoff_jitter_percent: int | None = Field(None, ge=0, le=100)

    closed_for_ms: int | None = Field(None, ge=0, le=MAX_CLOSED_MS)
    """Take no records for so long, from now on; 0 or null: take them again."""

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
    retention_bytes: int | None = None
    expire_unconsumed: bool = False
    ttl_ms: int | None = None
    dedup_window_ms: int = DEFAULT_DEDUP_WINDOW_MS
    max_record_bytes: int | None = None
    value_schema: str | None = None
    on_expired: OnExpired = "drop"
    dead_letter_topic: str | None = None
    max_attempts: int | None = None
    backoff_ms: int | None = None
    backoff_max_ms: int | None = None
    backoff_jitter_percent: int | None = None
    closed_until: int | None = None
    """No records are taken until then (microseconds since 1970): it is drained, to grow."""


class TopicList(AnswerShape):
    """`GET /v1/topics`, sorted by name."""

    topics: list[TopicDescription]


class SettledTopic(AnswerShape):
    """`POST /v1/topics/{topic}/settle`: all that any node took before it was closed is ordered."""

    topic: str
    sealed_shards: int
