"""Topics, on the ingest port."""

from __future__ import annotations

from hashlib import md5
from typing import Annotated, Final, Literal

from pydantic import BaseModel

from lakequeue.records import TopicId
from lakequeue.wire.calls.retries import ATTEMPTS, BACKOFF, BACKOFF_JITTER, BACKOFF_MAX
from lakequeue.wire.declared import Setting, SettingsRequest, changes_of
from lakequeue.wire.limits import (
    DEFAULT_DEDUP_WINDOW_MS,
    DEFAULT_PARTITIONS,
    MAX_ANNOTATIONS_CHARS,
    MAX_CLOSED_MS,
    MAX_DEDUP_WINDOW_MS,
    MAX_PARTITIONS,
    MAX_SPAN_MS,
    MAX_WHOLE,
)
from lakequeue.wire.shapes import AnswerShape

Partitioner = Literal["crc32", "murmur2"]
OnExpired = Literal["drop", "dead_letter"]
"""What becomes of a record whose time to live is over."""
SchemaType = Literal["json", "avro", "protobuf"]
Compatibility = Literal[
    "none",
    "backward",
    "backward_transitive",
    "forward",
    "forward_transitive",
    "full",
    "full_transitive",
]
ValuePolicy = Literal["reject", "warn", "dead_letter"]
VALUE_FAULT_HEADER: Final = "lakequeue-value-fault"
"""Header of a record that was taken though its value is not of the schema: why it is not."""


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


class TopicSettings(BaseModel):
    """The settings of a topic: the one declaration. Their order is that of the table `topics`."""

    partitions: Annotated[
        int, Setting("number of partitions", least=1, most=MAX_PARTITIONS, option="-p/--partitions")
    ] = DEFAULT_PARTITIONS
    partitioner: Annotated[
        Partitioner,
        Setting("how keys choose a partition: crc32, or murmur2 as Kafka does", alterable=False),
    ] = "crc32"
    retention_ms: Annotated[
        int | None,
        Setting("age at which records may be removed", "never", least=1, most=MAX_SPAN_MS),
    ] = None
    retention_bytes: Annotated[
        int | None,
        Setting(
            "if the topic has more bytes in `log`, the oldest records may be removed",
            "no limit",
            least=1,
            most=MAX_WHOLE,
        ),
    ] = None
    expire_unconsumed: Annotated[
        bool,
        Setting(
            "whether records may be removed that a live group has not consumed",
            negation="--keep-unconsumed",
        ),
    ] = False
    ttl_ms: Annotated[
        int | None,
        Setting("age after which a record is not delivered", "none", least=1, most=MAX_SPAN_MS),
    ] = None
    dedup_window_ms: Annotated[
        int,
        Setting("for how long a message id is remembered", least=0, most=MAX_DEDUP_WINDOW_MS),
    ] = DEFAULT_DEDUP_WINDOW_MS
    max_record_bytes: Annotated[
        int | None,
        Setting(
            "largest allowed record",
            "the node's limit",
            least=1,
            most=MAX_WHOLE,
        ),
    ] = None
    value_schema: Annotated[
        str | None,
        Setting(
            "schema that values must satisfy: JSON Schema, or what value_schema_type says. At one "
            "place of a value, 2,000 schemas may be evaluated",
            "any value",
            from_file=True,
        ),
    ] = None
    on_expired: Annotated[
        OnExpired, Setting("what happens to expired records: drop or dead_letter")
    ] = "drop"
    dead_letter_topic: Annotated[
        str | None, Setting("topic that dead records go to", "<topic>.dlq")
    ] = None
    max_attempts: Annotated[int | None, ATTEMPTS] = None
    backoff_ms: Annotated[int | None, BACKOFF] = None
    backoff_max_ms: Annotated[int | None, BACKOFF_MAX] = None
    backoff_jitter_percent: Annotated[int | None, BACKOFF_JITTER] = None
    annotations: Annotated[
        str | None,
        Setting(
            "what programs keep beside the topic, such as JSON; the queue does not read it",
            "nothing",
            least=1,
            most=MAX_ANNOTATIONS_CHARS,
            from_file=True,
        ),
    ] = None
    value_schema_type: Annotated[
        SchemaType | None, Setting("what value_schema is: json, avro or protobuf", "json")
    ] = None
    value_compatibility: Annotated[
        Compatibility | None,
        Setting(
            "what a new value_schema must be, compared with the one before (`_transitive`: with all"
            " before): backward, forward, full; for avro and protobuf",
            "none",
            option="--compatibility",
        ),
    ] = None
    value_policy: Annotated[
        ValuePolicy | None,
        Setting(
            "what happens to a record that does not satisfy the schema: reject, warn (it is taken,"
            " marked and counted) or dead_letter (it goes to the topic's dead letters)",
            "reject",
        ),
    ] = None


class TopicConfig(SettingsRequest, TopicSettings):
    """`PUT /v1/topics/{topic}`: everything has a default."""


TopicChanges = changes_of(
    TopicSettings,
    "TopicChanges",
    "`PATCH /v1/topics/{topic}`: only the fields that are given change; partitions only grow.",
    closed_for_ms=(
        int | None,
        Setting("take no records for so long, from now on", "open", least=0, most=MAX_CLOSED_MS),
    ),
)


class TopicIdentity(BaseModel):
    """Which topic it is."""

    topic: str
    topic_id: TopicId
    version: int


class TopicDescription(AnswerShape, TopicSettings, TopicIdentity):
    """`GET /v1/topics/{topic}`, and the answer to PUT and PATCH."""

    closed_until: int | None = None
    """No records are taken until then (microseconds since 1970): it is drained, to grow."""


class TopicList(AnswerShape):
    """`GET /v1/topics`, sorted by name."""

    topics: list[TopicDescription]


class SettledTopic(AnswerShape):
    """`POST /v1/topics/{topic}/settle`: all that any node took before it was closed is ordered."""

    topic: str
    sealed_shards: int
