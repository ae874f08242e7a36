"""What people who think in queues ask for, without joining a group."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from lakequeue.wire.calls.groups import GroupOptions
from lakequeue.wire.limits import (
    MAX_NAMED_TOPICS,
    MAX_REQUEST_RECORDS,
    MAX_VISIBILITY_MS,
    MAX_WAIT_MS,
)
from lakequeue.wire.shapes import AnswerShape, Items, RequestShape


class QueueGroupRequest(GroupOptions):
    """`PUT /v1/groups/{group}`: make a queue group before anybody joins it."""


class QueueGroupAnswer(AnswerShape):
    """200: there is such a queue group now."""

    group: str
    options: dict[str, Any]


class ReceiveRequest(RequestShape):
    """`POST /v1/groups/{group}/receive`: the next records, for a client that has not joined."""

    topics: Items[str] | None = Field(None, min_length=1, max_length=MAX_NAMED_TOPICS)
    """Null: the topic that is called like the group."""
    max: int = Field(1, ge=1, le=MAX_REQUEST_RECORDS)
    wait_ms: int = Field(0, ge=0, le=MAX_WAIT_MS)
    """How long to wait for the first one."""
    visibility_timeout_ms: int | None = Field(None, ge=1, le=MAX_VISIBILITY_MS)
    """How long these are kept for the client; null: as the group says."""


class ReceiveAnswer(AnswerShape):
    """200: each record with `receipt` and `deadline`; empty when none came in time."""

    records: list[dict[str, Any]]


class PurgeRequest(RequestShape):
    """`POST /v1/groups/{group}/purge`: what is there now is not delivered to the group any more."""

    topics: Items[str] | None = Field(None, min_length=1, max_length=MAX_NAMED_TOPICS)
    """Null: all that the group consumes."""
    here: bool = False
    """Between nodes: only what the node that is asked owns."""


class Purged(AnswerShape):
    """A partition whose records below `offset` are gone for the group."""

    topic: str
    partition: int
    offset: int


class PurgeAnswer(AnswerShape):
    """200: durable."""

    partitions: list[Purged]
